package convert

import (
	"cmp"
	"math"
	"reflect"
	"strings"

	commonv1 "github.com/kubeflow/common/pkg/apis/common/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
)

// policies are the parts of a job that follow from the run policy of Kubeflow. All job kinds have them.
type policies struct {
	run       batchv1beta1.RunPolicy
	mode      *batchv1beta1.RunMode
	scheduler *batchv1beta1.SchedulePolicy
	managedBy *batchv1beta1.ManagedBy
	// priorityClass is the priority class of the pods. Empty means that the templates decide.
	priorityClass string
}

// noLimit is a backoff limit that is never reached.
const noLimit = math.MaxInt32

// policyField returns the path that a field of the run policy has in the manifest.
func (c *conversion) policyField(name string) string {
	if c.inSpec.Has(name) {
		return "spec." + name
	}
	return "spec.runPolicy." + name
}

// runPolicyOf returns the run policy of a job. A field that spec.runPolicy does not set comes from the spec itself.
func (c *conversion) runPolicyOf(spec policySpec) runPolicy {
	policy := spec.RunPolicy
	fields := reflect.ValueOf(&policy.RunPolicy).Elem()
	c.inSpec = sets.New[string]()
	for field, old := range reflect.ValueOf(spec.oldPolicy.RunPolicy).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		result := "spec.runPolicy." + name
		switch current := fields.FieldByIndex(field.Index); {
		case old.IsNil():
		case current.IsNil():
			current.Set(old)
			c.inSpec.Insert(name)
			c.move("spec."+name, result)
		case !reflect.DeepEqual(current.Interface(), old.Interface()):
			c.notMapped("spec."+name, old.Elem().Interface(), result, "runPolicy."+name+" overrides it.")
		}
	}
	if len(c.inSpec) > 0 {
		c.changed("spec."+strings.Join(sets.List(c.inSpec), ", spec."), "", "spec.runPolicy",
			"Old operators read these fields in spec. Newer ones ignore them there.")
	}
	return policy
}

// policiesOf converts the run policy of a job with the given labels. The parameter restarts is whether a replica
// restarts after a failure. The parameter limit is Kubeflow's backoff limit if the manifest sets none.
func (c *conversion) policiesOf(spec policySpec, labels map[string]string, restarts bool, limit int32) policies {
	const field = "spec.runPolicy"
	from := c.runPolicyOf(spec)
	p := policies{run: batchv1beta1.RunPolicy{
		ActiveDeadlineSeconds:   from.ActiveDeadlineSeconds,
		BackoffLimit:            from.BackoffLimit,
		CleanUpPolicy:           c.cleanUpPolicy(ptr.Deref(from.CleanPodPolicy, commonv1.CleanPodPolicyUndefined)),
		TTLSecondsAfterFinished: from.TTLSecondsAfterFinished,
	}}
	switch {
	case from.BackoffLimit != nil:
		c.changed(c.policyField("backoffLimit"), *from.BackoffLimit, field+".backoffLimit",
			"A restart of all replicas together counts once. Preemptions, evictions and faults of nodes do not count.")
	case restarts:
		p.run.BackoffLimit = &limit
		value := any(limit)
		if limit == noLimit {
			value = "no limit"
		}
		c.byDefault(field+".backoffLimit", value, field+".backoffLimit", "The default here is 3.")
	}
	switch {
	case from.Suspend && labels[kueuev1beta2.LabelQueueName] != "":
		c.notMapped(field+".suspend", true, field,
			"Kueue suspends a PyTorchJob, TFJob or MPIJob until it is admitted. Here, Kueue needs no field for this.")
	case from.Suspend:
		p.mode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
		c.move(field+".suspend", "spec.runMode.pause.enabled")
	}
	switch from.ManagedBy {
	case "":
	case "kubeflow.org/training-operator", "kubeflow.org/mpi-operator":
		c.notMapped(field+".managedBy", from.ManagedBy, field,
			"The controller of the kind manages the job if managedBy is unset.")
	default:
		p.managedBy = new(batchv1beta1.ManagedBy(from.ManagedBy))
		c.move(field+".managedBy", "spec.managedBy")
	}
	if from.SchedulingPolicy != nil {
		c.scheduling(*from.SchedulingPolicy, &p)
	}
	return p
}

// cleanUpPolicyField is the path of the counterpart of the clean pod policy.
const cleanUpPolicyField = "spec.runPolicy.cleanUpPolicy"

// cleanUpPolicy converts the clean pod policy. Kubeflow's default is None for all kinds.
func (c *conversion) cleanUpPolicy(from commonv1.CleanPodPolicy) batchv1beta1.CleanUpPolicy {
	field := c.policyField("cleanPodPolicy")
	if _, ok := c.moved[cleanUpPolicyField]; !ok {
		c.move(field, cleanUpPolicyField)
	}
	switch from {
	case commonv1.CleanPodPolicyUndefined:
		c.byDefault(field, commonv1.CleanPodPolicyNone, cleanUpPolicyField,
			"The default here is Unfinished, which deletes the pods that still run when the job ends.")
		return batchv1beta1.CleanUpPolicyNone
	case commonv1.CleanPodPolicyRunning:
		return batchv1beta1.CleanUpPolicyUnfinished
	default:
		return batchv1beta1.CleanUpPolicy(from)
	}
}

// scheduling converts the scheduling policy.
func (c *conversion) scheduling(from commonv1.SchedulingPolicy, p *policies) {
	const result = "spec.scheduler"
	field := c.policyField("schedulingPolicy")
	gang := "A gang is all replicas of the job, or minReplicas of an elastic job."
	if from.Queue == "" {
		gang += " The job is a gang only if scheduler.t9kScheduler.queue names a Queue."
	}
	if from.Queue != "" {
		p.scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: from.Queue}}
		c.move(field+".queue", result+".t9kScheduler.queue")
		c.changed(field+".queue", from.Queue, result+".t9kScheduler.queue",
			"This is a Queue of the scheduler-controller (scheduler.tensorstack.dev), which must exist.")
	}
	c.notMappedIfSet(field+".minAvailable", from.MinAvailable, result, gang)
	c.notMappedIfSet(field+".minResources", from.MinResources, result, gang)
	c.notMappedIfSet(field+".scheduleTimeoutSeconds", from.ScheduleTimeoutSeconds, result,
		"A gang waits until it fits. activeDeadlineSeconds of the run policy limits the time including the wait.")
	p.priorityClass = from.PriorityClass
}

// restartsAfterFailure reports whether replicas with the policy restart after a failure.
func restartsAfterFailure(policy batchv1beta1.RestartPolicy) bool {
	return cmp.Or(policy, batchv1beta1.RestartPolicyNever) != batchv1beta1.RestartPolicyNever
}
