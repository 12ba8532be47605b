package hostile

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestGoodRefusalNamesTheFieldAndTheViolatedRule(t *testing.T) {
	spec := field.NewPath("spec")
	for name, test := range map[string]struct {
		refusal *field.Error
		problem string
	}{
		"a value that is too long is a good refusal": {
			refusal: field.TooLong(spec.Child("labels").Key("cost-center"), "", 4096),
		},
		"a rule that exceeds its cost limit is not": {
			refusal: field.Invalid(spec, "object", "validation failed due to running out of cost budget, "+
				"no further validation rules will be run"),
			problem: "exceeds the cost limit",
		},
		"an error without a field is not": {
			refusal: field.Invalid(nil, "object", "must be smaller"),
			problem: "does not name the field",
		},
		"a rule that cannot be evaluated is not, if it is the only one": {
			refusal: field.Invalid(spec, "object", "rule compile error: evaluating rule: no such key"),
			problem: "could not evaluate any rule",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := schema.GroupKind{Group: "batch.tensorstack.dev", Kind: "PyTorchTrainingJob"}
			err := goodRefusal(apierrors.NewInvalid(kind, "job", field.ErrorList{test.refusal}))
			switch {
			case test.problem == "" && err != nil:
				t.Errorf("rejected: %v", err)
			case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
				t.Errorf("got %v, want an error with %q", err, test.problem)
			}
		})
	}
}
