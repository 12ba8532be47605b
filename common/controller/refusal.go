package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan/status"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/report"
)

// refusedFor returns how long the creation of an object of the job has been failing, or 0 if it does not fail.
func (r *Reconciler[J]) refusedFor(job J) time.Duration {
	if c := meta.FindStatusCondition(job.JobStatus().Conditions, batchv1beta1.ConditionInitialized); c != nil &&
		status.IsCreateFailure(c.Reason) {
		return r.options.Clock.Now().Sub(c.LastTransitionTime.Time)
	}
	return 0
}

// reportRefusal writes the status of a decision, with the reason why an object of the job could not be created. It
// writes nothing if the status already has this reason and message.
func (r *Reconciler[J]) reportRefusal(
	ctx context.Context, job J, decided batchv1beta1.JobStatus, refused *report.RefusedError,
) error {
	refusing := *decided.DeepCopy()
	if !status.Refuse(&refusing, refused, job.GetGeneration(), r.options.Clock.Now()) {
		return nil
	}
	tensorBoard := tensorboard.Of(job).Status
	return r.patchStatus(ctx, job, refusing, tensorBoard, []report.Event{{
		Type: corev1.EventTypeWarning, Reason: refused.Reason, Action: "Create", Message: refused.Error(),
	}})
}

// blamed returns err, the error of the creation of a pod. If the API server rejected the pod because of one container
// that the controller adds, blamed adds the name of the container and a solution to the error, because users cannot
// change this container. Dry runs show which container it is, because the message of a policy need not name the
// container.
func (r *Reconciler[J]) blamed(ctx context.Context, pod *corev1.Pod, err error) error {
	var refused *report.RefusedError
	if !errors.As(err, &refused) || refused.Reason != batchv1beta1.ReasonCreateFailed {
		return err
	}
	isTemplate := func(c corev1.Container) bool { return c.Image != r.options.Image }
	helpers := slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), isTemplate)
	accepts := func(helper string) bool { // reports whether the API server accepts the pod with only this helper
		tried := pod.DeepCopy()
		tried.Spec.InitContainers = slices.DeleteFunc(tried.Spec.InitContainers, func(c corev1.Container) bool {
			return !isTemplate(c) && c.Name != helper
		})
		// Without this option, the client would need the resourceVersion of the result, and the result of a dry run has
		// none.
		return r.cluster.Client.Create(ctx, tried, client.DryRunAll, client.DisableReadYourWritesConsistency) == nil
	}
	if len(helpers) == 0 || !accepts("") {
		return err
	}
	for _, helper := range helpers {
		if !accepts(helper.Name) {
			refused.Err = fmt.Errorf("%w; the API server accepts the pod without its container %q, which the controller "+
				"adds: %s", refused.Err, helper.Name, r.remedy(helper))
			break
		}
	}
	return err
}

// remedy returns advice about a container that the controller adds and that the API server rejects.
func (r *Reconciler[J]) remedy(helper corev1.Container) string {
	allow := fmt.Sprintf("an administrator can allow its image %s", helper.Image)
	switch {
	case helper.Name == framework.ProgressContainer:
		return allow + ", or change its CPU and memory by --helper-resources of the controller; without " +
			"spec.progress.enabled, the job needs no such container"
	case equality.Semantic.DeepEqual(helper.Resources.Requests, r.options.HelperResources): // the template has no requests
		return allow + "; it gets the CPU and memory that the template requests for the main container"
	}
	return allow
}
