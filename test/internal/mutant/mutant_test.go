package mutant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tensorstack.dev/jobs/test/internal/tree"
)

func TestEveryEntryOfTheRepositoryMatchesOneLine(t *testing.T) {
	t.Chdir("../../..") // so that errors have paths relative to the root of the repository
	lists := tree.Files(t, ".", "*/"+listName)
	if len(lists) < 10 {
		t.Errorf("found %d lists, want at least 10", len(lists))
	}
	for _, list := range lists {
		if _, err := Read(strings.TrimSuffix(list, listName)); err != nil {
			t.Error(err)
		}
	}
}

const code = `package p

import "errors"

type set[T any] struct{ size int }

func (s *set[T]) add(T) { s.size++ }

func (s set[T]) isEmpty() bool {
	return s.size == 0 // no element
}

func check(a, b bool) error {
	if a {
		return errors.New("a")
	}
	if b {
		return nil // b
	}
	return nil
}
`

func TestRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		list string
		// want has the line numbers of the entries in the file.
		want    []int
		wantErr string
	}{
		"a package without a list has no bugs": {},
		"a bug replaces a line of a function": {
			list: "mutants: [{bug: it lies, in: check, at: 'if a {', become: 'if false {'}]", want: []int{14},
		},
		"a bug of a method removes a line": {
			list: "attacks: [{bug: it forgets, in: '(*set[T]).add', at: 'func (s *set[T]) add(T) { s.size++ }'}]",
			want: []int{7},
		},
		"a comment at the end of a line can be left out": {
			list: "mutants: [{bug: it lies, in: 'set[T].isEmpty', at: return s.size == 0}]", want: []int{10},
		},
		"a comment at the end of a line distinguishes the line": {
			list: "mutants: [{bug: it lies, in: check, at: return nil // b}]", want: []int{18},
		},
		"the occurrence distinguishes equal lines": {
			list: "equivalents: [{in: check, at: return nil, occurrence: 2, change: a, reason: b}]", want: []int{20},
		},
		"equal lines without an occurrence are an error": {
			list:    "mutants: [{bug: it lies, in: check, at: return nil}]",
			wantErr: `"it lies": function check in p.go has 2 lines "return nil": set occurrence to a number from 1 to 2`,
		},
		"an occurrence after the last one is an error": {
			list:    "mutants: [{bug: it lies, in: check, at: return nil, occurrence: 3}]",
			wantErr: `"it lies": function check in p.go has 2 lines "return nil": set occurrence to a number from 1 to 2`,
		},
		"an unnecessary occurrence is an error": {
			list:    "mutants: [{bug: it lies, in: check, at: 'if a {', occurrence: 1}]",
			wantErr: `"it lies": function check in p.go has one line "if a {": remove occurrence`,
		},
		"a part of a line is an error": {
			list:    "mutants: [{bug: it lies, in: check, at: if a}]",
			wantErr: `"it lies": function check in p.go has no line "if a": correct in or at, or remove the entry`,
		},
		"an empty line is an error": {
			list:    "mutants: [{bug: it lies, in: check, become: a}]",
			wantErr: `"it lies": function check in p.go has no line "": correct in or at, or remove the entry`,
		},
		"an unknown function is an error": {
			list:    "equivalents: [{in: add, at: s.size++, change: a, reason: b}]",
			wantErr: `"a": the package has no function add with the line "s.size++": correct in, or remove the entry`,
		},
		"a bug that changes nothing is an error": {
			list:    "mutants: [{bug: it lies, in: check, at: 'if a {', become: 'if a {'}]",
			wantErr: `"it lies": the bug changes nothing: correct at or become`,
		},
		"a bug without a name is an error": {
			list: "attacks: [{in: check, at: 'if a {'}]", wantErr: `"": the entry has no name: set bug`,
		},
		"an explanation without a reason is an error": {
			list:    "equivalents: [{in: check, at: 'if a {', change: always a}]",
			wantErr: `"always a": the entry explains nothing: set change and reason`,
		},
		"all errors of a list are found": {
			list:    "attacks: [{in: check, at: 'if a {'}, {bug: a}]",
			wantErr: "\"\": the entry has no name: set bug\n\"a\": the bug changes nothing: correct at or become",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "p.go"), code)
			write(t, filepath.Join(dir, "p_test.go"), "package p\n\nfunc add() {\n\ts.size++\n}\n")
			if tc.list != "" {
				write(t, filepath.Join(dir, listName), tc.list)
			}
			l, err := Read(dir)
			message := ""
			if err != nil {
				message = strings.ReplaceAll(strings.ReplaceAll(err.Error(), dir+"/"+listName+": ", ""), dir+"/", "")
			}
			if message != tc.wantErr {
				t.Errorf("error %q, want %q", message, tc.wantErr)
			}
			if err != nil {
				return
			}
			var got []int
			for _, m := range append(l.Mutants, l.Attacks...) {
				got = append(got, m.Line)
			}
			for _, e := range l.Equivalents {
				got = append(got, e.Line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownFieldsOfAnEntryAreAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, listName), "mutants: [{bug: it lies, in: check, at: a, becomes: b}]")
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), `unknown field "becomes"`) {
		t.Errorf("error %v, want the unknown field", err)
	}
}

func TestApplyReplacesTheLine(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "b", "p.go")
	write(t, file, "package p\n\nfunc f() {\n\ta()\n\tb()\n}\n")
	write(t, filepath.Join(root, "b", listName),
		"mutants: [{bug: it replaces, in: f, at: b(), become: c()}, {bug: it forgets, in: f, at: a()}]")
	var names []string
	for _, m := range Below(t, root).Mutants {
		names = append(names, m.Bug)
		m.Apply(t)
	}
	if diff := cmp.Diff([]string{"it forgets", "it replaces"}, names); diff != "" {
		t.Errorf("unexpected mutants (-want +got):\n%s", diff)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("package p\n\nfunc f() {\n\nc()\n}\n", string(got)); diff != "" {
		t.Errorf("unexpected code (-want +got):\n%s", diff)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
