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
	"tensorstack.dev/jobs/common/plan/decide"
	"tensorstack.dev/jobs/common/plan/view"
	"tensorstack.dev/jobs/common/report"
)

// podDeletions is a client that can only delete objects.
type podDeletions struct {
	client.Client

	answer error
	// deleted are the UIDs in the preconditions of the deletions.
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
		changed = "an admission webhook or policy changed labels of a new pod of the job, so the pod was deleted: "
		advice  = ": exempt these labels or the namespace from the webhook or policy"
	)
	for name, tc := range map[string]struct {
		// The function changes modifies the labels of the created pod as an admission webhook or policy does.
		changes func(labels map[string]string)
		// answer is the error that the API server returns for the deletion. Nil means success.
		answer error
		// want is the message of the expected error. Empty means no error.
		want string
		// wantRefused is true if the expected error is a *report.RefusedError, which is written into a condition of the
		// job.
		wantRefused bool
	}{
		"a pod that admission does not change is kept": {changes: func(map[string]string) {}},
		"a pod is kept if other labels change": {changes: func(labels map[string]string) {
			delete(labels, batchv1beta1.LabelReplicaType)
			labels["mesh"] = "yes"
		}},
		"a pod without its attempt label is deleted": {
			changes: func(labels map[string]string) { delete(labels, batchv1beta1.LabelAttempt) },
			want:    changed + "batch.tensorstack.dev/attempt is missing" + advice, wantRefused: true,
		},
		"a pod with another attempt is deleted": {
			changes: func(labels map[string]string) { labels[batchv1beta1.LabelAttempt] = "7" },
			want:    changed + "batch.tensorstack.dev/attempt has another value" + advice, wantRefused: true,
		},
		"a pod that the selector of the job does not match is deleted": {
			changes: func(labels map[string]string) {
				delete(labels, batchv1beta1.LabelJobKind)
				labels[batchv1beta1.LabelJobName] = ""
			},
			want: changed + "batch.tensorstack.dev/job-kind is missing, batch.tensorstack.dev/job-name has another value" +
				advice,
			wantRefused: true,
		},
		"a pod without the label of its PodGroup is deleted": {
			changes: func(labels map[string]string) { delete(labels, schedulerv1beta1.LabelGroupName) },
			want:    changed + "scheduler.tensorstack.dev/group-name is missing" + advice, wantRefused: true,
		},
		"a pod that is already gone is refused": {
			changes: func(labels map[string]string) { delete(labels, batchv1beta1.LabelAttempt) },
			answer:  apierrors.NewNotFound(pods, "job-worker-0"),
			want:    changed + "batch.tensorstack.dev/attempt is missing" + advice, wantRefused: true,
		},
		"a failed deletion is an error": {
			changes: func(labels map[string]string) { delete(labels, batchv1beta1.LabelAttempt) },
			answer:  apierrors.NewTimeoutError("too slow", 1),
			want:    "deleting pod job-worker-0, whose labels admission changed: Timeout: too slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := view.Labels("TestJob", "job")
			asked[batchv1beta1.LabelAttempt], asked[batchv1beta1.LabelReplicaType] = "1", "worker"
			asked[schedulerv1beta1.LabelGroupName] = "job"
			created := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "job-worker-0", UID: "uid", Labels: map[string]string{}}}
			maps.Copy(created.Labels, asked)
			tc.changes(created.Labels)
			api := &podDeletions{answer: tc.answer}
			clock := testingclock.NewFakePassiveClock(now)
			r := &Reconciler[*testJob]{cluster: Cluster{Client: api}, options: Options{Clock: clock, Memory: &Memory{}}}
			err := r.refuseChanged(t.Context(), &testJob{}, asked, created)
			got := ""
			if err != nil {
				got = err.Error()
			}
			diff(t, "error", tc.want, got)
			refused, ok := errors.AsType[*report.RefusedError](err)
			if ok != tc.wantRefused || ok && refused.Reason != batchv1beta1.ReasonAdmissionChangedPod {
				t.Errorf("the error is a RefusedError: %t (%+v), want %t", ok, refused, tc.wantRefused)
			}
			var want []types.UID
			if tc.want != "" {
				want = []types.UID{"uid"}
			}
			diff(t, "deleted pods", want, api.deleted)
		})
	}
}

func TestCreationsAreHeldAfterAdmissionChangedAPod(t *testing.T) {
	t.Parallel()
	const none = time.Duration(0)
	for name, tc := range map[string]struct {
		// attempt is the attempt label of the created pod. In the request, this label is "0".
		attempt string
		// answer is the error that the API server returns for the deletion. Nil means success.
		answer error
		// later is the time from the refusal to the next reconcile.
		later       time.Duration
		wantDelayed time.Duration
	}{
		"creations are held after a change": {attempt: "7", wantDelayed: time.Second},
		"creations are held although the deletion failed": {
			attempt: "7", answer: errors.New("too slow"), wantDelayed: time.Second,
		},
		"creations continue after the delay":            {attempt: "7", later: time.Second, wantDelayed: none},
		"creations are not held after an unchanged pod": {attempt: "0", wantDelayed: none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakePassiveClock(now)
			r := &Reconciler[*testJob]{
				cluster: Cluster{Client: &podDeletions{answer: tc.answer}}, options: Options{Clock: clock, Memory: &Memory{}},
			}
			job := &testJob{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job"}}}
			created := &corev1.Pod{}
			created.Labels = map[string]string{batchv1beta1.LabelAttempt: tc.attempt}
			err := r.refuseChanged(t.Context(), job, map[string]string{batchv1beta1.LabelAttempt: "0"}, created)
			diff(t, "the pod is refused", tc.attempt != "0", err != nil)
			clock.SetTime(now.Add(tc.later))
			changes := decide.Changes{Creates: []view.Creation{{Name: "job-worker-0"}}}
			d := plan.Decision{Facts: decide.Facts{Changes: changes}}
			diff(t, "held for", tc.wantDelayed, r.delayCreations(job, &d))
			diff(t, "pods are created", tc.wantDelayed == none, len(d.Creates) > 0)
		})
	}
}

func TestMemoryForgetsHeldCreations(t *testing.T) {
	t.Parallel()
	var memory Memory
	key := types.NamespacedName{Namespace: "ns", Name: "job"}
	memory.DelayUntil(key, now)
	diff(t, "DelayedUntil", now, memory.DelayedUntil(key))
	memory.forget(key)
	diff(t, "DelayedUntil of a deleted job", time.Time{}, memory.DelayedUntil(key))
}
