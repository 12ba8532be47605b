package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/policy"
	"tensorstack.dev/jobs/common/report"
)

// labelsRead are the labels by which the controllers find a pod of a job, and know its attempt.
var labelsRead = []string{
	batchv1beta1.LabelJobKind, batchv1beta1.LabelJobName, batchv1beta1.LabelAttempt, schedulerv1beta1.LabelGroupName,
}

// refuseChanged deletes a pod that was just created if admission changed a label that the controllers read: they would
// not find the pod, or take it for one of another attempt. Then it returns a *report.RefusedError, and no pod is
// created for the time of a refusal. The message names no pod and no value, so that it is the same with each try.
func (r *Reconciler[J]) refuseChanged(ctx context.Context, job J, asked map[string]string, pod *corev1.Pod) error {
	var changed []string
	for _, label := range labelsRead {
		want, isAsked := asked[label]
		switch got, ok := pod.Labels[label]; {
		case !isAsked || ok && got == want:
		case ok:
			changed = append(changed, label+" has another value")
		default:
			changed = append(changed, label+" is missing")
		}
	}
	if len(changed) == 0 {
		return nil
	}
	retry := r.options.Clock.Now().Add(policy.RefusalDelay(r.refusedFor(job)))
	r.options.Memory.HoldUntil(client.ObjectKeyFromObject(job), retry)
	if _, err := r.releasePod(ctx, pod, client.DisableReadYourWritesConsistency); err != nil {
		return err
	}
	err := r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}, client.DisableReadYourWritesConsistency)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s, whose labels admission changed: %w", pod.Name, err)
	}
	return &report.RefusedError{Reason: batchv1beta1.ReasonAdmissionChangedPod, Err: fmt.Errorf(
		"an admission webhook or policy of the cluster changed labels of a pod of the job as it was created, and the pod "+
			"was deleted: %s: exempt these labels or the namespace from it", strings.Join(changed, ", "))}
}

// holdCreations drops the pods to create while it is too early to try again after admission changed one, and returns
// for how much longer. The creation and the deletion of such a pod wake the job each time, so that it would create pods
// all the time.
func (r *Reconciler[J]) holdCreations(job J, d *plan.Decision) time.Duration {
	held := r.options.Memory.HeldUntil(client.ObjectKeyFromObject(job)).Sub(r.options.Clock.Now())
	if len(d.Creates) == 0 || held <= 0 {
		return 0
	}
	d.Creates = nil
	return held
}
