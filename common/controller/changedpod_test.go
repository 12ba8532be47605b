package controller

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/report"
)

// podDeletions is a client that deletes, and nothing else.
type podDeletions struct {
	client.Client

	answer error
	// deleted are the UIDs in the preconditions.
	deleted []types.UID
}

func (c *podDeletions) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	var asked client.DeleteOptions
	asked.ApplyOptions(options)
	c.deleted = append(c.deleted, *asked.Preconditions.UID)
	return c.answer
}

func TestRefuseChanged(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	const (
		changed = "an admission webhook or policy of the cluster changed labels of a pod of the job as it was created, " +
			"and the pod was deleted: "
		advice = ": exempt these labels or the namespace from it"
	)
	for name, tc := range map[string]struct {
		// changes are what admission does to the labels.
		changes func(labels map[string]string)
		// answer is that of the API server to the deletion.
		answer error
		// want is the error, empty for none. wantRefused reports whether the condition of the job gets it.
		want        string
		wantRefused bool
	}{
		"a pod that admission leaves alone stays": {changes: func(map[string]string) {}},
		"labels that no controller reads do not matter": {changes: func(labels map[string]string) {
			delete(labels, batchv1beta1.LabelReplicaType)
			labels["mesh"] = "yes"
		}},
		"a pod without its attempt is deleted": {
			changes: func(labels map[string]string) { delete(labels, batchv1beta1.LabelAttempt) },
			want:    changed + "batch.tensorstack.dev/attempt is missing" + advice, wantRefused: true,
		},
		"a pod of another attempt is deleted": {
			changes: func(labels map[string]string) { labels[batchv1beta1.LabelAttempt] = "7" },
			want:    changed + "batch.tensorstack.dev/attempt has another value" + advice, wantRefused: true,
		},
		"a pod that no list would have is deleted": {
			changes: func(labels map[string]string) {
				delete(labels, batchv1beta1.LabelJobKind)
				labels[batchv1beta1.LabelJobName] = ""
			},
			want: changed + "batch.tensorstack.dev/job-kind is missing, batch.tensorstack.dev/job-name has another value" +
				advice,
			wantRefused: true,
		},
		"a pod that its group would not find is deleted": {
			changes: func(labels map[string]string) { delete(labels, schedulerv1beta1.LabelGroupName) },
			want:    changed + "scheduler.tensorstack.dev/group-name is missing" + advice, wantRefused: true,
		},
		"a pod that is gone already is refused": {
			changes: func(labels map[string]string) { delete(labels, batchv1beta1.LabelAttempt) },
			answer:  apierrors.NewNotFound(pods, "job-worker-0"),
			want:    changed + "batch.tensorstack.dev/attempt is missing" + advice, wantRefused: true,
		},
		"a deletion that fails is tried again": {
			changes: func(labels map[string]string) { delete(labels, batchv1beta1.LabelAttempt) },
			answer:  apierrors.NewTimeoutError("too slow", 1),
			want:    "deleting pod job-worker-0, whose labels admission changed: Timeout: too slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := plan.Labels("TestJob", "job")
			asked[batchv1beta1.LabelAttempt], asked[batchv1beta1.LabelReplicaType] = "1", "worker"
			asked[schedulerv1beta1.LabelGroupName] = "job"
			created := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "job-worker-0", UID: "uid", Labels: map[string]string{}}}
			maps.Copy(created.Labels, asked)
			tc.changes(created.Labels)
			api := &podDeletions{answer: tc.answer}
			clock := testingclock.NewFakePassiveClock(now)
			r := &Reconciler[*testJob]{client: api, options: Options{Clock: clock, Memory: &Memory{}}}
			err := r.refuseChanged(t.Context(), &testJob{}, asked, created)
			got := ""
			if err != nil {
				got = err.Error()
			}
			diff(t, "error", tc.want, got)
			refused, ok := errors.AsType[*report.RefusedError](err)
			if ok != tc.wantRefused || ok && refused.Reason != batchv1beta1.ReasonAdmissionChangedPod {
				t.Errorf("the error is a refusal: %t (%+v), want %t", ok, refused, tc.wantRefused)
			}
			var want []types.UID
			if tc.want != "" {
				want = []types.UID{"uid"}
			}
			diff(t, "pods that are deleted", want, api.deleted)
		})
	}
}

func TestCreationsAreHeldAfterAdmissionChangedAPod(t *testing.T) {
	t.Parallel()
	const none = time.Duration(0)
	for name, tc := range map[string]struct {
		// attempt is the label of the pod, which is asked to be "0".
		attempt string
		// answer is that of the API server to the deletion.
		answer error
		// later is when the job is reconciled again.
		later    time.Duration
		wantHeld time.Duration
	}{
		"not again at once":                         {attempt: "7", wantHeld: time.Second},
		"not at once although the deletion failed":  {attempt: "7", answer: errors.New("too slow"), wantHeld: time.Second},
		"again after the delay":                     {attempt: "7", later: time.Second, wantHeld: none},
		"a pod that is as asked for holds no other": {attempt: "0", wantHeld: none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(now)
			r := &Reconciler[*testJob]{
				client: &podDeletions{answer: tc.answer}, options: Options{Clock: clock, Memory: &Memory{}},
			}
			job := &testJob{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job"}}}
			created := &corev1.Pod{}
			created.Labels = map[string]string{batchv1beta1.LabelAttempt: tc.attempt}
			err := r.refuseChanged(t.Context(), job, map[string]string{batchv1beta1.LabelAttempt: "0"}, created)
			diff(t, "the pod is refused", tc.attempt != "0", err != nil)
			clock.SetTime(now.Add(tc.later))
			d := plan.Decision{Creates: []plan.Creation{{Name: "job-worker-0"}}}
			diff(t, "held for", tc.wantHeld, r.holdCreations(job, &d))
			diff(t, "pods are created", tc.wantHeld == none, len(d.Creates) > 0)
		})
	}
}

func TestMemoryForgetsThatCreationsAreHeld(t *testing.T) {
	t.Parallel()
	var memory Memory
	key := types.NamespacedName{Namespace: "ns", Name: "job"}
	memory.HoldUntil(key, now)
	diff(t, "held until", now, memory.HeldUntil(key))
	memory.forget(key)
	diff(t, "held until, of a job that is gone", time.Time{}, memory.HeldUntil(key))
}
