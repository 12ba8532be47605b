package decide_test

import (
	"testing"

	"tensorstack.dev/jobs/common/internal/jobtest"
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/policy"
)

func TestWithOutput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ message, output, want string }{
		"nothing is added without an output": {output: "", want: "failed"},
		"the message of the kubelet comes before the output": {
			message: "too much storage", output: "a", want: "failed: too much storage; its last output:\na",
		},
		"the message of the kubelet comes without an output": {message: "too much storage", want: "failed: too much storage"},
		"the output is added":                                {output: "a\nb", want: "failed; its last output:\na\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide.WithOutput("failed", policy.Failure{Message: tc.message, Output: tc.output})
			jobtest.Diff(t, "message", tc.want, got)
		})
	}
}
