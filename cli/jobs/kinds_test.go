package jobs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListed(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff("ptjob, tfjob or dsjob", listed([]string{"ptjob", "tfjob", "dsjob"}, "or")); diff != "" {
		t.Errorf("unexpected text (-want +got):\n%s", diff)
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
