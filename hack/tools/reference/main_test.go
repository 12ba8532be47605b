package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlagsPage(t *testing.T) {
	t.Parallel()
	const common = `Runs things

Usage:
  x-controller [flags]

Flags:
  -h, --help             help for x-controller
      --image string     image of this controller (default: that of the pod)
      --leader-elect     take part in a leader election (default true)
      --requests stringToString   resource requests (default [cpu=10m,memory=1Gi])
`
	got := flagsPage(map[string]string{
		"a-controller": common + "      --workers int      jobs at the same time (default 16)\n",
		"b-controller": common +
			"      --workers int      queues at the same time (default 4)\n" +
			"      --engine string    native | volcano (default \"native\")\n",
	})
	want := `# Flags of the controllers

## Every controller

| Flag | Default | Meaning |
| --- | --- | --- |
| ` + "`--image`" + ` | that of the pod | image of this controller |
| ` + "`--leader-elect`" + ` | true | take part in a leader election |
| ` + "`--requests`" + ` | cpu=10m,memory=1Gi | resource requests |

## a-controller

| Flag | Default | Meaning |
| --- | --- | --- |
| ` + "`--workers`" + ` | 16 | jobs at the same time |

## b-controller

| Flag | Default | Meaning |
| --- | --- | --- |
| ` + "`--engine`" + ` | native | native \| volcano |
| ` + "`--workers`" + ` | 4 | queues at the same time |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected page (-want +got):\n%s", diff)
	}
}

func TestTrainPage(t *testing.T) {
	t.Parallel()
	commands := commandsIn("Train\n\nAvailable Commands:\n  run         Train with a folder\n  help        Help\n" +
		"  logs        Print the output\n  docs        Print a page\n\nFlags:\n  -h, --help   help for kubectl train\n")
	if diff := cmp.Diff([]string{"run", "logs", "docs"}, commands); diff != "" {
		t.Fatalf("unexpected commands (-want +got):\n%s", diff)
	}
	help := map[string]string{
		"run": "Train with a folder.\n\nUsage:\n  kubectl train run DIR [flags]\n\nFlags:\n" +
			"  -d, --detach        return when the job is created\n  -h, --help          help for run\n" +
			"      --kind string   pytorch | <kind> (default \"pytorch\")\n\n" +
			"Global Flags:\n      --as string   Username to impersonate\n",
		"logs": "Print the output.\n\nUsage:\n  kubectl train logs JOB [flags]\n\nFlags:\n" +
			"      --rank int32   rank of the replica\n",
		"docs": "Print a page.\n\nUsage:\n  kubectl train docs [flags]\n\nFlags:\n  -h, --help   help for docs\n",
	}
	got, err := trainPage(commands, help)
	if err != nil {
		t.Fatal(err)
	}
	want := `
## kubectl train docs

` + "```text" + `
Print a page.

Usage:
  kubectl train docs [flags]
` + "```" + `

## kubectl train logs

` + "```text" + `
Print the output.

Usage:
  kubectl train logs JOB [flags]
` + "```" + `

| Flag | Default | Meaning |
| --- | --- | --- |
| ` + "`--rank`" + ` |  | rank of the replica |

## kubectl train run

` + "```text" + `
Train with a folder.

Usage:
  kubectl train run DIR [flags]
` + "```" + `

| Flag | Default | Meaning |
| --- | --- | --- |
| ` + "`-d`, `--detach`" + ` |  | return when the job is created |
| ` + "`--kind`" + ` | pytorch | pytorch \| \<kind> |
`
	if _, got, _ = strings.Cut(got, "`--as`.\n"); got != want {
		t.Errorf("unexpected page (-want +got):\n%s", cmp.Diff(want, got))
	}
	if _, err := trainPage(commands, map[string]string{}); err == nil {
		t.Error("a command without a help text is accepted")
	}
}

func TestGroupsOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source  string
		want    []group
		wantErr string
	}{
		"the comments of a block and its constants become a group": {
			source: `
// Reasons of ConditionRunning. There are
// others.
const (
	// ReasonQueued: no pods are
	// created.
	ReasonQueued = "Queued"
	// LabelName is the label.
	LabelName = "name"
)`,
			want: []group{
				{
					"Reasons of ConditionRunning", "There are others.", []constant{{"ReasonQueued", "Queued", "no pods are created."}},
				},
			},
		},
		"the verb of the comment of a condition is cut off": {
			source: "// Types.\nconst (\n// ConditionReady is True while it answers.\nConditionReady = \"Ready\"\n)",
			want:   []group{{"Types", "", []constant{{"ConditionReady", "Ready", "True while it answers."}}}},
		},
		"constants that users do not see are left out": {source: "const DefaultLimit = 3"},
		"a reason without a comment is an error": {
			source:  "// Reasons.\nconst (\nReasonQueued = \"Queued\"\n)",
			wantErr: "ReasonQueued: it must be a string with a comment that explains when it occurs, in a block with a comment",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+tc.source, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			got, err := groupsOf(file)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if gotErr != tc.wantErr {
				t.Errorf("got error %q, want %q", gotErr, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(group{}, constant{})); diff != "" {
				t.Errorf("unexpected groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTypesOfAllKindsAreOnOnePage(t *testing.T) {
	t.Parallel()
	page := func(kind string, types ...string) string {
		self := "[" + kind + "](#" + strings.ToLower(kind) + ")"
		return "# API Reference\n\n## Packages\n- [batch](#batch)\n\n" +
			jobGroup + "\n\n### Resource Types\n- " + self + "\n\n" +
			"#### " + kind + "\n\n| `policy` _[Policy](#policy)_ |\n| `board` _[Board](#board)_ |\n\n" +
			"#### Policy\n\n_Appears in:_\n- " + self + "\n\n| `limit` _[Limit](#limit)_ |\n\n" +
			"#### Limit\n\n_Appears in:_\n- [Policy](#policy)\n" + strings.Join(types, "")
	}
	const board = "# API Reference\n\n" + jobGroup + "\n\n#### Limit\n\nA copy.\n\n" +
		boardGroup + "\n\n#### Board\n\nThe board.\n"
	pages := map[string]string{
		"a.md":           page("A", "\n#### Own\n\nOwn.\n", "\n"+boardGroup+"\n\n#### Board\n\nA copy.\n"),
		"b.md":           page("B"),
		"tensorboard.md": board,
	}
	shareTypes(pages)
	own := func(kind, types string) string {
		lower := strings.ToLower(kind)
		return "# API Reference\n\nThe types that all job kinds have are on [another page](jobs.md).\n\n" + jobGroup +
			"\n\n### Resource Types\n- [" + kind + "](#" + lower + ")\n\n#### " + kind +
			"\n\n| `policy` _[Policy](jobs.md#policy)_ |\n| `board` _[Board](tensorboard.md#board)_ |\n\n" + types
	}
	want := map[string]string{
		"a.md": own("A", "#### Own\n\nOwn.\n\n"),
		"b.md": own("B", ""),
		"jobs.md": "# API Reference of All Job Kinds\n\n#### Policy\n\n_Appears in:_\n- [A](a.md#a)\n- [B](b.md#b)\n\n" +
			"| `limit` _[Limit](#limit)_ |\n\n#### Limit\n\n_Appears in:_\n- [Policy](#policy)\n\n",
		"tensorboard.md": board,
	}
	if diff := cmp.Diff(want, pages); diff != "" {
		t.Errorf("unexpected pages (-want +got):\n%s", diff)
	}
}
