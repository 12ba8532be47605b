package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// denied returns the API server's error about a forbidden request of the user jane.
func denied(verb, resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "digits", fmt.Errorf(
		"User %q cannot %s resource %q in API group %q in the namespace %q", "jane", verb, resource, "", "vision"))
}

func TestExplain(t *testing.T) {
	t.Parallel()
	const ask = " in namespace vision: ask an administrator for a Role with this right, such as the ClusterRole edit"
	for name, test := range map[string]struct {
		err  error
		want string
		code int
	}{
		"requests that are forbidden are one message": {
			err:  utilerrors.NewAggregate([]error{denied("list", "pods"), denied("list", "services")}),
			want: "user jane may not list pods, services" + ask, code: exitError,
		},
		"a message keeps the words of the command about a forbidden request": {
			err: failure{
				error: fmt.Errorf("%w. ptjob/digits is left (%w)", denied("create", "configmaps"), denied("delete", "ptjobs")),
				code:  exitInterrupted,
			},
			want: "user jane may not create configmaps" + ask + ". ptjob/digits is left (" +
				denied("delete", "ptjobs").Error() + ")",
			code: exitInterrupted,
		},
		"a command that cannot wait reports what it has done": {
			err:  explainWait(denied("watch", "ptjobs"), 0, "the job is being deleted", ""),
			want: "the job is being deleted, but the command cannot wait: user jane may not watch ptjobs" + ask,
			code: exitError,
		},
		"an interrupted request is no failure of the cluster": {
			err:  &url.Error{Op: "Get", URL: "https://example.com/api", Err: context.Canceled},
			want: "interrupted", code: exitInterrupted,
		},
		"an interrupted command keeps its words": {
			err:  failure{error: fmt.Errorf("the job goes on: %w", context.Canceled), code: exitInterrupted},
			want: "the job goes on: context canceled", code: exitInterrupted,
		},
		"an invalid object shows no field that the API server does not name": {
			err: failure{error: fmt.Errorf("digits.yaml: %w", apierrors.NewInvalid(
				schema.GroupKind{Kind: "PyTorchTrainingJob"}, "digits", field.ErrorList{
					field.Required(field.NewPath("spec"), ""), field.Invalid(nil, nil, "some rules were not checked"),
				})), code: exitInterrupted},
			want: `digits.yaml: PyTorchTrainingJob "digits" is invalid: [spec: Required value, some rules were not checked]`,
			code: exitInterrupted,
		},
		"an invalid object shows no field that an old API server does not name": {
			err: apierrors.NewInvalid(schema.GroupKind{Kind: "TensorBoard"}, "digits", field.ErrorList{
				field.Invalid(nil, "object", "metadata.name must be short"),
			}),
			want: `TensorBoard "digits" is invalid: metadata.name must be short`, code: exitError,
		},
		"another error stays as it is": {err: errors.New("no such job"), want: "no such job", code: exitError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &environment{flags: genericclioptions.NewConfigFlags(true)}
			got := e.explain(test.err)
			if got == nil || got.Error() != test.want || ExitCode(got) != test.code {
				t.Errorf("got the exit code %d and the error %v, want %d and %s", ExitCode(got), got, test.code, test.want)
			}
		})
	}
}
