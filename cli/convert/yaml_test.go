package convert

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

func TestTextsKeepTheirValues(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", "yes", "No", "on", "y", "null", "~", "true", "1", "1.0", "1e3", "0x10", "0o7", "1:30", "2024-11-26", ".inf",
		"<<", "=", "# a", "a # b", "a: b", "- a", "*a", "&a", "!a", "%a", "@a", "`a`", "{a}", "[a]", "a\nb", "a\n",
		"\n a\n  b ",
		"  a  ", "\ta", "a\u0085b", "a\u2028b", "\x7f", "\x1b[31m", "\\", `"`, "'", "ä中🙂", strings.Repeat("word ", 60),
	}
	node, err := nodeOf(map[string]any{"texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	content, err := encode(node)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Texts []any `json:"texts"`
	}
	if err := kyaml.UnmarshalStrict(content, &got); err != nil {
		t.Fatal(err)
	}
	var want []any
	for _, text := range texts {
		want = append(want, text)
	}
	if diff := cmp.Diff(want, got.Texts); diff != "" {
		t.Errorf("kubectl reads other values (-want +got):\n%s\nin\n%s", diff, content)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(`
base: &base {image: a, name: b}
list:
  - <<: *base
    name: c
  - *base
  - <<: [{name: d}, *base]
annotations:
  example.com/name: e
self: &self {<<: *self, name: f}
`), &document); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"list[0].image": "a", "list[0].name": "c", "list[1].name": "b", "list[2].name": "d", "list[2].image": "a",
		"annotations[example.com/name]": "e",
		"list[3].name":                  "", "list[x]": "", "list.name": "", "base.image.tag": "", "other": "",
		"list[-1].name": "", "self.name": "f", "self.none": "",
	} {
		got := ""
		if _, value := find(document.Content[0], path); value != nil {
			got = value.Value
		}
		if got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

func TestComment(t *testing.T) {
	t.Parallel()
	const manifest = `spec:
  list:
    - name: a
      value: b
    - name: c
      flow: {d: [e]}
`
	for path, want := range map[string]string{
		"spec":                 "# here\nspec:",
		"spec.none.at.all":     "# here\nspec:",
		"spec.list":            "  # here\n  list:",
		"spec.list[0]":         "    # here\n    - name: a",
		"spec.list[0].name":    "    # here\n    - name: a",
		"spec.list[0].value":   "      # here\n      value: b",
		"spec.list[7].value":   "  # here\n  list:",
		"spec.list[-1].value":  "  # here\n  list:",
		"spec.list[1].flow.d":  "      # here\n      flow: {d: [e]}",
		"spec.list[0].value.x": "      # here\n      value: b",
		"":                     "# here\nspec:",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			var document yaml.Node
			if err := yaml.Unmarshal([]byte(manifest), &document); err != nil {
				t.Fatal(err)
			}
			comment(document.Content[0], path, "# here")
			content, err := encode(&document)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(content), want+"\n") {
				t.Errorf("the result has no %q:\n%s", want, content)
			}
		})
	}
}

func TestRemarksStayComments(t *testing.T) {
	t.Parallel()
	r := Remark{NotMapped, "spec.a\nb", "c\u0085d\u2028e\x1b[31m\r\nkind: Pod", "Text.", ""}
	const want = `# Not mapped: spec.a\nb: c\u0085d\u2028e\x1b[31m\r\nkind: Pod. Text.`
	if got := wrapped(r.String()); got != want {
		t.Errorf("the comment is %q, want %q", got, want)
	}
}

func TestWrapped(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 120)
	got := wrapped(strings.Repeat("word ", 25) + long + " end")
	want := "#" + strings.Repeat(" word", 19) + "\n#  " + strings.Repeat(" word", 6) + "\n#   " + long + "\n#   end"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected lines (-want +got):\n%s", diff)
	}
}
