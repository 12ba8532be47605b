package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is a page with sections of two levels, and with a comment in a block.
var example = Page{Name: "example", text: `# An example

Text.

## Ranks, and hosts' ports

Text.

~~~sh
# a comment
~~~

### Details

More.

## The end

The last line.
`}

func TestSection(t *testing.T) {
	t.Parallel()
	page := example
	page.text = strings.ReplaceAll(page.text, "~~~", "```")
	begin, end := strings.Index(page.text, "## Ranks"), strings.Index(page.text, "\n## The end")
	for anchor, want := range map[string]string{
		"an-example":            page.text,
		"ranks-and-hosts-ports": page.text[begin:end],
		"details":               "### Details\n\nMore.\n",
		"the-end":               "## The end\n\nThe last line.\n",
	} {
		got, err := page.section(anchor)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("section %s: error %v (-want +got):\n%s", anchor, err, diff)
		}
	}
}

func TestAnErrorListsPagesAndSections(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"trouble": `there is no page "trouble". The pages are: concepts, elastic, `,
		"kueue#trouble": `page kueue has no section "trouble". Its sections are: what-happens-to-a-job, ` +
			`jobs-in-other-clusters`,
	} {
		if _, err := Find(name); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error about %s is %v, want %q", name, err, want)
		}
	}
}

func TestPagesAreListedOnce(t *testing.T) {
	t.Parallel()
	var names []string
	for _, page := range Pages() {
		names = append(names, page.Name)
		if page.Title == "" || strings.Contains(page.Title, "#") {
			t.Errorf("page %s has the title %q", page.Name, page.Title)
		}
		if text, err := Find(page.Name); err != nil || !strings.HasPrefix(text, "# "+page.Title+"\n\n") {
			t.Errorf("page %s begins with %.50q, and the error is %v", page.Name, text, err)
		}
	}
	sorted := slices.Sorted(slices.Values(names))
	if unique := slices.Compact(slices.Clone(sorted)); len(unique) != len(sorted) {
		t.Errorf("a name is not unique: %q", sorted)
	}
	for _, want := range []string{"troubleshooting", "pytorch", "operate/troubleshooting", "reference/jobs"} {
		if !slices.Contains(names, want) {
			t.Errorf("the page %s is missing: %q", want, names)
		}
	}
}

func TestLinksCanBeFollowed(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`\]\(((?:(?:operate|reference)/)?[a-z-]+(?:#[\w-]+)?)\)`)
	count := 0
	for _, page := range Pages() {
		text, err := Find(page.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range links.FindAllStringSubmatch(text, -1) {
			count++
			if _, err := Find(found[1]); err != nil {
				t.Errorf("page %s: %v", page.Name, err)
			}
		}
	}
	if count < 100 {
		t.Errorf("found %d links, want at least 100", count)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	const text = "[a](kueue.md) [b](../operate/kueue.md#install) [c](#failed) [d](../../pytorch/README.md) " +
		"[e](../contribute/style.md#go) [f](https://kueue.sigs.k8s.io) [g](../../examples/pytorch) a[0]()"
	const want = "[a](kueue) [b](operate/kueue#install) [c](troubleshooting#failed) [d](pytorch) " +
		"[e](docs/contribute/style.md#go) [f](https://kueue.sigs.k8s.io) [g](examples/pytorch) a[0]()"
	if diff := cmp.Diff(want, withNames(text, "docs/train/troubleshooting.md")); diff != "" {
		t.Errorf("unexpected links (-want +got):\n%s", diff)
	}
}
