package tensorboard

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// Messages of sources and containers can contain secrets, so the log has only phases, reasons and conditions.
func TestTheLogHasThePhasesOfATensorBoardAndNoMessages(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	board := &v1beta1.TensorBoard{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "board"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(board).WithStatusSubresource(board).Build()
	r := &reconciler{client: c, events: events.NewFakeRecorder(10)}
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	const secret = "hunter2"
	write := func(phase v1beta1.TensorBoardPhase, ready string, sources metav1.ConditionStatus, reason string) {
		t.Helper()
		var tb v1beta1.TensorBoard
		if err := c.Get(ctx, client.ObjectKeyFromObject(board), &tb); err != nil {
			t.Fatal(err)
		}
		status := v1beta1.TensorBoardStatus{Phase: phase, Conditions: []v1beta1.TensorBoardCondition{
			notReady(ready, "it prints "+secret),
			{
				Type: v1beta1.ConditionSourcesAvailable, Status: sources, Reason: reason,
				Message: "http://user:" + secret + "@logs",
			},
		}}
		if phase == v1beta1.TensorBoardRunning {
			status.Conditions[0].Status = metav1.ConditionTrue
		}
		if err := r.writeStatus(ctx, &tb, status); err != nil {
			t.Fatal(err)
		}
	}
	write(v1beta1.TensorBoardPending, batchv1beta1.ReasonCreating, metav1.ConditionUnknown, v1beta1.ReasonNotRunning)
	write(v1beta1.TensorBoardPending, batchv1beta1.ReasonPending, metav1.ConditionUnknown, v1beta1.ReasonNotRunning)
	write(v1beta1.TensorBoardFailed, v1beta1.ReasonCrashing, metav1.ConditionUnknown, v1beta1.ReasonNotRunning)
	write(v1beta1.TensorBoardRunning, v1beta1.ReasonServing, metav1.ConditionFalse, v1beta1.ReasonFetchFailed)
	write(v1beta1.TensorBoardRunning, v1beta1.ReasonServing, metav1.ConditionFalse, v1beta1.ReasonFetchFailed)
	write(v1beta1.TensorBoardSuspended, v1beta1.ReasonCulled, metav1.ConditionUnknown, v1beta1.ReasonNotRunning)
	want := []string{
		`"level"=0 "msg"="PhaseChanged" "phase"="Pending" "reason"="Creating" "was"=""`,
		`"level"=0 "msg"="Crashing" "phase"="Failed" "condition"="Ready" "status"="False"`,
		`"level"=0 "msg"="Serving" "phase"="Running" "condition"="Ready" "status"="True"`,
		`"level"=0 "msg"="FetchFailed" "phase"="Running" "condition"="SourcesAvailable" "status"="False"`,
		`"level"=0 "msg"="Culled" "phase"="Suspended" "condition"="Ready" "status"="False"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("unexpected log (-want +got):\n%s", diff)
	}
	if strings.Contains(strings.Join(lines, "\n"), secret) {
		t.Error("the log contains a secret")
	}
}
