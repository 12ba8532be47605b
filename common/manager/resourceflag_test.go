package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAddResourceFlag(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		// want is the value of the flag.
		want string
		// wantErr is the error; empty means none.
		wantErr string
	}{
		"without the flag, the default holds": {want: "cpu=100m,memory=64Mi"},
		"the flag replaces the default":       {args: []string{"--size=memory=1Gi"}, want: "memory=1Gi"},
		"a repeated flag adds to the list": {
			args: []string{"--size=cpu=2", "--size=memory=1Gi"}, want: "cpu=2,memory=1Gi",
		},
		"resources can have a domain":       {args: []string{"--size=a.b/gpu=1,cpu=1"}, want: "a.b/gpu=1,cpu=1"},
		"an empty value means no resources": {args: []string{"--size="}},
		"a resource without a quantity is refused": {
			args: []string{"--size=cpu"}, wantErr: `"cpu" must be <resource>=<quantity>, such as cpu=100m`,
		},
		"a quantity that is no number is refused": {
			args: []string{"--size=cpu=much"},
			wantErr: "cpu=much: quantities must match the regular expression " +
				"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
		},
		"a negative quantity is refused": {
			args: []string{"--size=cpu=-1"}, wantErr: "cpu=-1: a quantity must not be negative",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			AddResourceFlag(flags, &list, "size", "usage")
			err := flags.Parse(tc.args)
			if tc.wantErr != "" {
				want := `invalid argument "` + tc.args[0][len("--size="):] + `" for "--size" flag: ` + tc.wantErr
				if err == nil || err.Error() != want {
					t.Errorf("got the error %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if diff := cmp.Diff(tc.want, flags.Lookup("size").Value.String()); diff != "" {
				t.Errorf("unexpected value (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckHelper(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value string
		valid bool
	}{
		"CPU and memory are valid":    {"cpu=200m,memory=128Mi", true},
		"CPU alone is invalid":        {"cpu=200m", false},
		"no CPU is invalid":           {"cpu=0,memory=64Mi", false},
		"another resource is invalid": {"cpu=1,memory=64Mi,nvidia.com/gpu=1", false},
		"an empty list is invalid":    {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var list corev1.ResourceList
			if err := (&resourceValue{list: &list}).Set(tc.value); err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			if err := checkHelper(list); (err == nil) != tc.valid {
				t.Errorf("got the error %v, want valid = %t", err, tc.valid)
			}
		})
	}
}
