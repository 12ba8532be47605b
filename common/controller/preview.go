package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/plan"
	"tensorstack.dev/jobs/common/plan/admission"
	"tensorstack.dev/jobs/common/plan/tensorboard"
	"tensorstack.dev/jobs/common/plan/view"
)

const (
	// UnknownUID stands for the UID of an object that does not exist yet.
	UnknownUID types.UID = "00000000-0000-0000-0000-000000000000"
	// unknownToken stands for a random token.
	unknownToken = "(random)"
)

// Preview is everything that a job controller creates for a new job.
type Preview struct {
	// Objects are the objects that the controller creates immediately, in this order. Random parts are replaced: the
	// values of Secrets are empty, and the tokens of pods are unknownToken.
	Objects []client.Object
	// Admission is the PodGroup or the Workload in Objects, which another controller must admit. Nil means that the job
	// controller creates neither.
	Admission client.Object
	// Admitted are the objects that the controller creates after the admission, in this order. The real pods can have
	// more fields, because queues, flavors and topologies can add to them.
	Admitted []client.Object
	// Status is the first status of the job. If the controller creates no pods, the conditions in the status show the
	// reason.
	Status batchv1beta1.JobStatus
}

// NewPreview returns the objects that the controller of a framework creates for a new job of the given kind, if no
// other objects exist. It decides and builds the objects like the Reconciler. If the job has no UID, the objects have
// UnknownUID as the UID of their owner. NewPreview returns an error if a pod or the Secret of the job cannot be
// built, for example because of a mistake in a template.
func NewPreview[J framework.Job](
	f framework.Framework[J], kind schema.GroupVersionKind, job J, options Options,
) (Preview, error) {
	job = job.DeepCopyObject().(J) //nolint:forcetypeassert // the copy of a J is a J
	if job.GetUID() == "" {
		job.SetUID(UnknownUID)
	}
	*job.JobStatus() = batchv1beta1.JobStatus{}
	tensorboard.SetStatus(job, nil)
	planned, now := plannedJob(f, kind, options.Settings, job), options.Clock.Now()
	seen := observation{tensorBoard: tensorboard.Of(job)}
	seen.NeedsNetworkPolicy = options.NetworkPolicies.Enabled
	if needsWorkload(job, planned.Spec) {
		seen.Admission = admission.WorkloadOf(job, &planned, now)
	}
	if needsPodGroup(job, planned.Spec) {
		seen.Admission = admission.PodGroup{}
	}
	d := decideAll(planned, seen, now)
	p := Preview{Status: d.Status}
	if wanted := d.Admission.Wanted; wanted != nil {
		p.Admission = wanted
		p.Objects = append(p.Objects, wanted)
	}
	if d.EnsureNetworkPolicy {
		p.Objects = append(p.Objects, newNetworkPolicy(&planned, options.NetworkPolicies, options.ProgressReader))
	}
	if d.CreateService {
		p.Objects = append(p.Objects, newService(&planned))
	}
	pods, err := previewPods(f, job, &planned, d.Creates)
	if err != nil {
		return p, err
	}
	p.Objects = append(p.Objects, pods...)
	if wanted := d.tensorBoard.Change.Wanted; wanted != nil {
		p.Objects = append(p.Objects, wanted)
	}
	if p.Admission == nil {
		return p, nil
	}
	planned.Status = d.Status
	seen.Admission = admission.Admitted(seen.Admission, p.Admission, UnknownUID)
	p.Admitted, err = previewPods(f, job, &planned, plan.Decide(planned, seen.Observation, now).Creates)
	return p, err
}

// previewPods returns the Secret that the pods share, if the framework has one, and then the pods to create. Random
// parts are replaced as in Preview. Without pods to create, it returns nothing.
func previewPods[J framework.Job](
	f framework.Framework[J], job J, planned *view.Job, creates []view.Creation,
) ([]client.Object, error) {
	if len(creates) == 0 {
		return nil, nil
	}
	objects := make([]client.Object, 0, len(creates)+1)
	secret, err := newSecret(f, job, planned)
	if err != nil {
		return nil, err
	}
	if secret != nil {
		for key := range secret.Data {
			secret.Data[key] = []byte{}
		}
		objects = append(objects, secret)
	}
	for i := range creates {
		var pod *corev1.Pod
		if pod, err = creates[i].Build(); err != nil {
			return nil, err
		}
		setToken(pod, func() string { return unknownToken })
		objects = append(objects, pod)
	}
	return objects, nil
}
