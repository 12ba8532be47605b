package tensorboard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

func TestSourcesOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spec v1beta1.TensorBoardSpec
		want sources
	}{
		"filesets can be in claims and in MinIO": {
			spec: v1beta1.TensorBoardSpec{TrainingLogFilesets: []v1beta1.FilesetURI{
				"t9k://pvc/data", "t9k://pvc/data/logs/run 1/", "t9k://minio/keys/bucket/a/b",
			}},
			want: sources{
				All: []sidecar.Source{
					{Run: "data", Link: "/claims/data"},
					{Run: "data-logs-run 1", Link: "/claims/data/logs/run 1"},
					{Run: "bucket-a-b", S3: &sidecar.S3Source{Bucket: "bucket", Prefix: "a/b", Secret: "/secrets/keys"}},
				},
				Claims: []string{"data"}, Secrets: []string{"keys"},
			},
		},
		"a logDir can have claims, S3 folders and URLs": {
			spec: v1beta1.TensorBoardSpec{LogDir: &v1beta1.LogDir{
				PVC: []v1beta1.PVCLogDir{{Name: "one"}, {Name: "two", SubPath: []v1beta1.SubPath{"x", "y/z"}}},
				S3: &v1beta1.S3LogDir{
					SecretRef: corev1.LocalObjectReference{Name: "keys"}, URI: []v1beta1.S3URI{"s3://bucket", "s3://other/runs/"},
				},
				HTTP: &v1beta1.HTTPLogDir{URL: []v1beta1.HTTPURL{"https://host:8443/a/events.out.tfevents.1"}},
			}},
			want: sources{
				All: []sidecar.Source{
					{Run: "one", Link: "/claims/one"},
					{Run: "two-x", Link: "/claims/two/x"},
					{Run: "two-y-z", Link: "/claims/two/y/z"},
					{Run: "bucket", S3: &sidecar.S3Source{Bucket: "bucket", Secret: "/secrets/keys"}},
					{Run: "other-runs", S3: &sidecar.S3Source{Bucket: "other", Prefix: "runs", Secret: "/secrets/keys"}},
					{
						Run:  "host:8443-a-events.out.tfevents.1",
						HTTP: &sidecar.HTTPSource{URL: "https://host:8443/a/events.out.tfevents.1"},
					},
				},
				Claims: []string{"one", "two"}, Secrets: []string{"keys"},
			},
		},
		"a source that is listed twice is shown once": {
			spec: v1beta1.TensorBoardSpec{
				TrainingLogFilesets: []v1beta1.FilesetURI{"t9k://pvc/data/logs", "t9k://pvc/data//./logs/"},
				LogDir:              &v1beta1.LogDir{PVC: []v1beta1.PVCLogDir{{Name: "data", SubPath: []v1beta1.SubPath{"logs"}}}},
			},
			want: sources{All: []sidecar.Source{{Run: "data-logs", Link: "/claims/data/logs"}}, Claims: []string{"data"}},
		},
		"runs that would have the same name get a number": {
			spec: v1beta1.TensorBoardSpec{LogDir: &v1beta1.LogDir{PVC: []v1beta1.PVCLogDir{
				{Name: "data", SubPath: []v1beta1.SubPath{"a/b", "a-b"}}, {Name: "data-a", SubPath: []v1beta1.SubPath{"b"}},
			}}},
			want: sources{
				All: []sidecar.Source{
					{Run: "data-a-b", Link: "/claims/data/a/b"},
					{Run: "data-a-b-2", Link: "/claims/data/a-b"},
					{Run: "data-a-b-3", Link: "/claims/data-a/b"},
				},
				Claims: []string{"data", "data-a"},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, sourcesOf(&tc.spec)); diff != "" {
				t.Errorf("unexpected sources (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzRunNamesAreFolders checks that the run of any path has a valid folder name.
func FuzzRunNamesAreFolders(f *testing.F) {
	f.Add("data/../../etc")
	f.Add("..")
	f.Add("\x00/\xff")
	f.Fuzz(func(t *testing.T, path string) {
		name := runName(path)
		if name == "" || len(name) > maxRunName || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
			t.Errorf("the run of %q is named %q, which is not a valid folder name", path, name)
		}
	})
}

// The controller replaces a pod if the name of a run changes, so an update of the controller must not change the
// names. A run is named after its location. If another run has this name already, the lowest number from 2 that makes
// the name unique is appended.
func TestRunsHaveTheFirstFreeNumber(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "a-2", "a/2", "a-3", "a-2-2", "b", "b/2", "b-2"}
	for range 200 {
		var paths []v1beta1.SubPath
		for range 12 {
			paths = append(paths, v1beta1.SubPath(words[random.IntN(len(words))]+strings.Repeat("/", random.IntN(2))+
				words[random.IntN(len(words))]))
		}
		spec := v1beta1.TensorBoardSpec{LogDir: &v1beta1.LogDir{PVC: []v1beta1.PVCLogDir{{Name: "c", SubPath: paths}}}}
		taken := map[string]bool{}
		for _, source := range sourcesOf(&spec).All {
			base := runName(strings.TrimPrefix(source.Link, claimsFolder))
			want := base
			for i := 2; taken[want]; i++ {
				want = fmt.Sprintf("%s-%d", base, i)
			}
			taken[want] = true
			if source.Run != want {
				t.Fatalf("the run of %s is named %s, want %s; all paths: %q", source.Link, source.Run, want, paths)
			}
		}
	}
}
