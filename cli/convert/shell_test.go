package convert

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScriptOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		words []string
		want  string
		ok    bool
	}{
		"a shell with -c":               {[]string{"sh", "-c", "train"}, "train", true},
		"a shell with a path and flags": {[]string{"/bin/bash", "-l", "-xec", "train"}, "train", true},
		"a script file":                 {[]string{"bash", "train.sh", "-c"}, "", false},
		"arguments of the script":       {[]string{"sh", "-c", "train $0", "fast"}, "", false},
		"a shell without a script":      {[]string{"sh", "-c"}, "", false},
		"a long flag that ends with c":  {[]string{"bash", "--norc", "train.sh"}, "", false},
		"another program":               {[]string{"python", "-c", "print()"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := scriptOf(tc.words)
			if ok != tc.ok || ok && got != tc.want {
				t.Errorf("scriptOf(%q) = %q, %t, want %q, %t", tc.words, got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestPlainWords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		want   []string
	}{
		"words":                         {"torchrun train.py --lr=0.1", []string{"torchrun", "train.py", "--lr=0.1"}},
		"exec is no word":               {"exec torchrun train.py", []string{"torchrun", "train.py"}},
		"continued lines":               {"torchrun \\\n  --m=2 \\\n  a.py\n", []string{"torchrun", "--m=2", "a.py"}},
		"quotes":                        {`python 'a b' "c 'd'" e"f"'g' ""`, []string{"python", "a b", "c 'd'", "efg", ""}},
		"special characters in quotes":  {`python '*;|' "#"`, []string{"python", "*;|", "#"}},
		"a variable":                    {"torchrun -n=$NODES.a", []string{"torchrun", "-n=$(NODES).a"}},
		"a variable in quotes":          {`torchrun "${NODES}:1"`, []string{"torchrun", "$(NODES):1"}},
		"a variable of Kubernetes":      {"torchrun $(NODES)", []string{"torchrun", "$(NODES)"}},
		"a variable in single quotes":   {"torchrun '$(NODES)'", nil},
		"a variable with a default":     {"torchrun ${NODES:-1}", nil},
		"an argument of the script":     {"torchrun $1", nil},
		"the output of a command":       {"torchrun $(cat name)", nil},
		"a command in the arguments":    {"torchrun `cat name`", nil},
		"two commands":                  {"cd /code; torchrun train.py", nil},
		"two lines":                     {"cd /code\ntorchrun train.py", nil},
		"a pipe":                        {"torchrun train.py | tee log", nil},
		"a redirection":                 {"torchrun train.py >log", nil},
		"a pattern":                     {"torchrun *.py", nil},
		"a home folder":                 {"torchrun ~/train.py", nil},
		"a comment":                     {"torchrun train.py # fast", nil},
		"a brace expansion":             {"torchrun train{1,2}.py", nil},
		"an escaped character":          {`torchrun train\ 1.py`, nil},
		"a quote that does not end":     {"torchrun 'train.py", nil},
		"nothing":                       {"  \n", nil},
		"a word that contains a quoted": {"python --name='a b'", []string{"python", "--name=a b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := plainWords(tc.script)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != (tc.want != nil) {
				t.Errorf("unexpected words, ok is %t (-want +got):\n%s", ok, diff)
			}
			if !ok {
				return
			}
			script := `printf '<%s>' ` + strings.TrimPrefix(tc.script, "exec ")
			script = strings.ReplaceAll(script, "$(NODES)", "$NODES") // the shell prints $(NODES), the value of NODES
			shell := exec.CommandContext(t.Context(), "sh", "-c", script)
			shell.Env = append(shell.Environ(), "NODES=$(NODES)")
			output, err := shell.Output()
			if err != nil {
				t.Fatal(err)
			}
			if want := "<" + strings.Join(got, "><") + ">"; string(output) != want {
				t.Errorf("a shell reads the words %s, want %s", output, want)
			}
		})
	}
}

func TestQuoted(t *testing.T) {
	t.Parallel()
	words := []string{"it's", "a b", "", "$HOME", "*", "a\nb", `"`, "plain-word_1.2:/%@+=,", "#", "~"}
	output, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n--\\n' "+quoted(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Join(words, "\n--\n")+"\n--\n", string(output)); diff != "" {
		t.Errorf("a shell reads other words (-want +got):\n%s", diff)
	}
	if got := quoted(words[7:8]); got != words[7] {
		t.Errorf("quoted is %s, want no quotes", got)
	}
}
