package jobs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListed(t *testing.T) {
	t.Parallel()
	names := []string{"ptjob", "tfjob", "dsjob"}
	for n, want := range []string{"", "ptjob", "ptjob or tfjob", "ptjob, tfjob or dsjob"} {
		if got := Listed(names[:n], "or"); got != want {
			t.Errorf("got %q for %d names, want %q", got, n, want)
		}
	}
}

// TestNamesOfKinds checks the names that the client reads from the manifests of the CRDs.
func TestNamesOfKinds(t *testing.T) {
	t.Parallel()
	type names struct{ Kind, Resource, ShortName, Framework string }
	for _, want := range []names{
		{"PyTorchTrainingJob", "pytorchtrainingjobs", "ptjob", "pytorch"},
		{"TensorFlowTrainingJob", "tensorflowtrainingjobs", "tfjob", "tensorflow"},
		{"DeepSpeedJob", "deepspeedjobs", "dsjob", "deepspeed"},
	} {
		kind := KindNamed(want.Kind)
		if kind == nil {
			t.Fatalf("there is no kind %s", want.Kind)
		}
		got := names{kind.Kind, kind.Resource, kind.ShortName, kind.Framework()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unexpected names (-want +got):\n%s", diff)
		}
	}
}
