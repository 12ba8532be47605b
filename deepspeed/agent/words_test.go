package agent

import (
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// joining is a launcher that joins its words into a command line for each host, as DeepSpeed (0.9 to 0.19) and pdsh do.
const joining = `
line=
for word in "$@"; do
	case $word in *" "*) word="\"$(printf %s "$word" | sed 's/"/\\"/g')\"" ;; esac
	line="$line $word"
done
for host in $(cut -d' ' -f1 $HOSTFILE); do
	ssh $host "$(printf %s ": -m deepspeed.launcher.launch ; printf '<%s>'$line" | sed "s/%h/$host/g")"
done
`

func TestRanksGetTheWordsOfTheProgramExactly(t *testing.T) {
	words := []string{
		"train.py", "$HOME", "*", "--x=a;date", "", "it's", `--note="two" words`, "$(date)", "`date`", "%h", "a\\b", "~", "#",
		"{1,2}", "--json={\"a\": [1, 2]}", "two\nlines", "T9K_WORD_2", "--lr=1e-3", "!", "a|b>c&", "é",
	}
	j := newJob(t, 2)
	j.program = len(words)
	if err := launch(t.Context(), j.options, append(j.launcher(joining), words...)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(j.output)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("<"+strings.Join(words, "><")+">", 2)
	if diff := gocmp.Diff(want, string(got)); diff != "" {
		t.Errorf("unexpected words of the program on two workers (-want +got):\n%s", diff)
	}
}

func TestTheLauncherReadsPlainWords(t *testing.T) {
	t.Parallel()
	command := []string{"deepspeed", "--include=a b", "train.py", "--deepspeed_config=/code/ds.json", "$HOME"}
	hidden, environment := hideWords(command, 3)
	want := []string{"deepspeed", "--include=a b", "train.py", "--deepspeed_config=/code/ds.json", "T9K_WORD_4"}
	if diff := gocmp.Diff(want, hidden); diff != "" {
		t.Errorf("unexpected command (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"T9K_WORD_4=$HOME"}, environment); diff != "" {
		t.Errorf("unexpected variables (-want +got):\n%s", diff)
	}
}
