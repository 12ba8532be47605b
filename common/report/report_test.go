package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNameConflictNamesTheController(t *testing.T) {
	t.Parallel()
	isController := true
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"an object without an owner can be deleted": {
			want: "the job needs pod a-0, but one exists that is not the job's: delete it or rename the job",
		},
		"an object of another job names that job": {
			owners: []metav1.OwnerReference{{Kind: "DeepSpeedJob", Name: "b", UID: "1-2", Controller: &isController}},
			want: "the job needs pod a-0, but one exists that belongs to DeepSpeedJob b (UID 1-2): " +
				"rename the job, or delete that DeepSpeedJob",
		},
		"an owner that is not the controller is not named": {
			owners: []metav1.OwnerReference{{Kind: "DeepSpeedJob", Name: "b", UID: "1-2"}},
			want:   "the job needs pod a-0, but one exists that is not the job's: delete it or rename the job",
		},
		"a name of a controller that is too long is truncated": {
			owners: []metav1.OwnerReference{{Kind: "K", Name: strings.Repeat("b", 300), UID: "1-2", Controller: &isController}},
			want: "the job needs pod a-0, but one exists that belongs to K " + strings.Repeat("b", 250) + "... (UID 1-2): " +
				"rename the job, or delete that K",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := NameConflict("the job", "pod a-0", &metav1.ObjectMeta{OwnerReferences: tc.owners})
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("unexpected message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 replicas", 1: "1 replica", 2: "2 replicas"} {
		if got := Count(n, "replica"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message string
		most    int
		want    string
	}{
		"a message that fits is unchanged":   {message: "abcdef", most: 6, want: "abcdef"},
		"a truncated message ends with dots": {message: "abcdefg", most: 6, want: "abc..."},
		"no character is split":              {message: "aééb", most: 5, want: "a..."},
		"a character that fits is kept":      {message: "éaaaa", most: 5, want: "é..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Truncated(tc.message, tc.most)); diff != "" {
				t.Errorf("unexpected message (-want +got):\n%s", diff)
			}
		})
	}
}
