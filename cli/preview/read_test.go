package preview

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const job = "apiVersion: batch.tensorstack.dev/v1beta1\nkind: PyTorchTrainingJob\nmetadata: {name: digits}\n"

func TestRead(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{
		"job.yaml":        job,
		"notes.txt":       "not a manifest",
		"sub/other.yml":   strings.ReplaceAll(job, "digits", "letters"),
		"sub/script.yaml": "# Only a comment\n---\n" + job,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		paths     []string
		recursive bool
		stdin     string
		want      []string
		wantErr   string
	}{
		"a file is read whatever its name is": {paths: []string{"notes.txt"}, wantErr: "notes.txt: "},
		"the manifests of a folder are read":  {paths: []string{""}, want: []string{"job.yaml: PyTorchTrainingJob digits"}},
		"a document without content is ignored": {
			paths: []string{"sub/script.yaml"}, want: []string{"sub/script.yaml: PyTorchTrainingJob digits"},
		},
		"subfolders are read if asked for": {
			paths: []string{""}, recursive: true,
			want: []string{
				"job.yaml: PyTorchTrainingJob digits", "sub/other.yml: PyTorchTrainingJob letters",
				"sub/script.yaml: PyTorchTrainingJob digits",
			},
		},
		"documents of the standard input are numbered": {
			paths: []string{"-"}, stdin: job + "---\nkind: ConfigMap\n---\n",
			want: []string{
				"standard input, document 1: PyTorchTrainingJob digits", "standard input, document 2: ConfigMap ",
			},
		},
		"several JSON objects are documents": {
			paths: []string{"-"}, stdin: `{"kind": "A", "metadata": {"name": "a"}} {"kind": "B"}`,
			want: []string{"standard input, document 1: A a", "standard input, document 2: B "},
		},
		"the items of a List are documents": {
			paths: []string{"-"}, stdin: "apiVersion: v1\nkind: List\nitems: [{kind: A, metadata: {name: a}}, {kind: B}]",
			want: []string{"standard input, item 1: A a", "standard input, item 2: B "},
		},
		"a file that does not exist is an error": {paths: []string{"missing.yaml"}, wantErr: "missing.yaml: no such file"},
		"a document that is not YAML is an error": {
			paths: []string{"-"}, stdin: job + "---\nkind: [",
			want: []string{"standard input: PyTorchTrainingJob digits"}, wantErr: "standard input: document 2: yaml: line 1: ",
		},
		"a document without a kind is an error, and the others are read": {
			paths: []string{"missing.yaml", "-"}, stdin: "metadata: {}\n---\n" + job,
			want:    []string{"standard input, document 2: PyTorchTrainingJob digits"},
			wantErr: "standard input: document 1: the object has no kind",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			for _, path := range tc.paths {
				if path != "-" {
					path = filepath.Join(folder, path)
				}
				paths = append(paths, path)
			}
			documents, err := Read(paths, tc.recursive, strings.NewReader(tc.stdin))
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("the error is %v, want %q", err, tc.wantErr)
			}
			var got []string
			for _, d := range documents {
				source := strings.TrimPrefix(d.Source, folder+"/")
				got = append(got, source+": "+d.Kind.Kind+" "+d.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected documents (-want +got):\n%s", diff)
			}
		})
	}
}
