package convert

import (
	"fmt"
	"regexp"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
)

// pyTorch is the conversion of a PyTorchJob.
type pyTorch struct {
	*conversion

	name     string
	spec     pyTorchJobSpec
	replicas []*replicas
	job      *pytorchv1beta1.PyTorchTrainingJob
}

// convertPyTorchJob converts a PyTorchJob into a PyTorchTrainingJob. If the job is elastic and has metrics, the
// second result is a HorizontalPodAutoscaler.
func convertPyTorchJob(c *conversion, from kubeflowJob[pyTorchJobSpec], _ Options) ([]result, error) {
	list, err := replicasOf(from.Spec.PyTorchReplicaSpecs, "spec.pytorchReplicaSpecs", "pytorch",
		[]role{{"Master", "master"}, {"Worker", "worker"}})
	if err != nil {
		return nil, err
	}
	p := &pyTorch{conversion: c, name: from.Metadata.Name, spec: from.Spec, replicas: list}
	p.job = &pytorchv1beta1.PyTorchTrainingJob{
		TypeMeta:   typeOf(pytorchv1beta1.Kind),
		ObjectMeta: p.metadataOf(from.Metadata, from.Status),
	}
	p.move("spec.pytorchReplicaSpecs", "spec.replicaSpecs")
	restarts := p.setReplicas(list, batchv1beta1.RestartPolicyOnFailure)
	common := p.policiesOf(from.Spec.policySpec, p.job.Labels, restarts, noLimit)
	p.job.Spec.RunPolicy, p.job.Spec.RunMode = common.run, common.mode
	p.job.Spec.Scheduler, p.job.Spec.ManagedBy = common.scheduler, common.managedBy
	p.removeOverridden()
	p.setPort()
	if err := p.setLaunch(); err != nil {
		return nil, err
	}
	p.remarkOnMissingMaster()
	for _, r := range list {
		p.prioritize(r, common.priorityClass)
		p.remarkOnTemplate(p.name, r, p.hints(r)...)
		p.remarkOnSidecars(r)
		replicaSpec := pytorchv1beta1.ReplicaSpec{
			Type: r.role, Replicas: r.Replicas, Template: r.Template, RestartPolicy: r.policy,
		}
		if p.job.Spec.Elastic != nil && len(list) == 1 {
			replicaSpec.Replicas = nil // elastic.expectedReplicas replaces this field
		}
		p.job.Spec.ReplicaSpecs = append(p.job.Spec.ReplicaSpecs, replicaSpec)
	}
	return append([]result{{c, p.job}}, p.scaler()...), nil
}

// total returns the number of replicas of all types.
func (p *pyTorch) total() int32 {
	var total int32
	for _, r := range p.replicas {
		total += ptr.Deref(r.Replicas, 1)
	}
	return total
}

// replicasOf returns the replicas of a type, or nil.
func (p *pyTorch) replicasOf(role string) *replicas {
	for _, r := range p.replicas {
		if r.role == role {
			return r
		}
	}
	return nil
}

// overridden are the variables that Kubeflow sets in a job with a master. They override those of the template.
var overridden = sets.New("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")

// removeOverridden removes the variables whose values have no effect with Kubeflow.
func (p *pyTorch) removeOverridden() {
	if p.replicasOf("master") == nil {
		return
	}
	for _, r := range p.replicas {
		main := r.mainContainer()
		var kept []corev1.EnvVar
		for i, variable := range main.Env {
			field := fmt.Sprintf("%s.env[%d]", r.mainField(), i)
			if overridden.Has(variable.Name) {
				p.notMapped(field, variable.Name, r.mainResult()+".env",
					"Kubeflow overrides this variable. Here, the controller or torchrun sets it.")
				continue
			}
			p.move(field, fmt.Sprintf("%s.env[%d]", r.mainResult(), len(kept)))
			kept = append(kept, variable)
		}
		main.Env = kept
	}
}

// kubeflowPort is Kubeflow's default for the port of the leader. A container port named kubeflowPortName overrides
// it.
const (
	kubeflowPort     int32 = 23456
	kubeflowPortName       = "pytorchjob-port"
)

// setPort sets MASTER_PORT if the manifest sets the port of the leader.
func (p *pyTorch) setPort() {
	leader := p.replicasOf("master")
	field, port := "", int32(0)
	policy := p.spec.ElasticPolicy
	if leader == nil && policy != nil {
		leader = p.replicasOf("worker")
	}
	if leader != nil {
		for i, container := range leader.mainContainer().Ports {
			if container.Name == kubeflowPortName {
				field, port = fmt.Sprintf("%s.ports[%d]", leader.mainField(), i), container.ContainerPort
			}
		}
	}
	if policy != nil && policy.RDZVPort != nil && policy.RDZVHost == "" {
		field, port = "spec.elasticPolicy.rdzvPort", *policy.RDZVPort
	}
	if port == 0 {
		return
	}
	for _, r := range p.replicas {
		main := r.mainContainer()
		before := len(main.Env)
		main.Env = withVariables(main.Env, []corev1.EnvVar{{Name: "MASTER_PORT", Value: strconv.Itoa(int(port))}})
		if len(main.Env) > before {
			p.changed(field, port, fmt.Sprintf("%s.env[%d]", r.mainResult(), before),
				"MASTER_PORT sets the port of the leader.")
		}
	}
}

// remarkOnMissingMaster remarks on a missing master. A job of a single replica needs none, unless it is elastic.
func (p *pyTorch) remarkOnMissingMaster() {
	if p.replicasOf("master") != nil || p.total() == 1 && p.spec.ElasticPolicy == nil {
		return
	}
	text := "The job succeeds when worker 0 does. "
	if p.spec.ElasticPolicy != nil {
		text += "A PyTorchJob with an elasticPolicy and without a master succeeds when any worker does."
	} else {
		text += "A PyTorchJob without a master succeeds when all workers do. Its workers get no MASTER_ADDR, " +
			"MASTER_PORT, WORLD_SIZE and RANK. Here, worker 0 leads the others, and all get these variables."
	}
	p.changed("spec.pytorchReplicaSpecs", "no Master", "spec.replicaSpecs", text)
}

// hints returns the remarks that apply to texts in the template of a PyTorchJob.
func (p *pyTorch) hints(r *replicas) []hint {
	isSet := namesOf(r.mainContainer().Env)
	hints := []hint{{
		pattern: petVariables, except: isSet,
		text: "Kubeflow sets this variable for torchrun. Here, it is unset.",
	}}
	if p.job.Spec.TorchrunConfig != nil {
		hints = append(hints, hint{
			pattern: regexp.MustCompile(`\$[({]?(RANK|WORLD_SIZE)\b`), except: isSet,
			text: "With torchrunConfig, only the processes that torchrun starts have this variable. The container does not.",
		})
	}
	if !isSet.Has("MASTER_PORT") {
		hints = append(hints, hint{
			pattern: regexp.MustCompile(fmt.Sprintf(`\b%d\b`, kubeflowPort)),
			text:    "The default port of the leader is 29500. MASTER_PORT in env of all templates changes it.",
		})
	}
	return hints
}

// namesOf returns the names of variables.
func namesOf(env []corev1.EnvVar) sets.Set[string] {
	names := sets.New[string]()
	for _, variable := range env {
		names.Insert(variable.Name)
	}
	return names
}

// remarkOnVariables remarks on flags of torchrun that refer to a variable, unless all main containers have this
// variable.
func (p *pyTorch) remarkOnVariables() {
	known := namesOf(p.replicas[0].mainContainer().Env)
	for _, r := range p.replicas[1:] {
		known = known.Intersection(namesOf(r.mainContainer().Env))
	}
	known.Insert("MASTER_ADDR", "MASTER_PORT")
	hints := []hint{{
		pattern: reference, except: known,
		text: "Neither env nor the controller sets this variable in all main containers. Unless envFrom does, torchrun " +
			"gets the reference instead of a value.",
	}}
	p.remarkOnTexts(p.job.Spec.TorchrunConfig, "spec.torchrunConfig", hints,
		func(string) string { return p.replicas[0].mainField() + ".command" })
}

// remarkOnSidecars remarks on sidecars that refer to variables that only the main container has.
func (p *pyTorch) remarkOnSidecars(r *replicas) {
	variables := `MASTER_ADDR|MASTER_PORT`
	if p.job.Spec.TorchrunConfig == nil { // with torchrunConfig, the main container has neither WORLD_SIZE nor RANK
		variables += `|WORLD_SIZE|RANK`
	}
	hints := []hint{{
		pattern: regexp.MustCompile(`\$[({]?(` + variables + `)\b`),
		text:    "Only the main container has this variable. With Kubeflow, all containers have it.",
	}}
	for i, container := range r.Template.Spec.Containers {
		if i == r.main {
			continue
		}
		suffix := fmt.Sprintf(".template.spec.containers[%d]", i)
		p.remarkOnTexts(container, r.result+suffix, hints, func(path string) string { return r.field + suffix + path })
	}
}

// scaler returns the HorizontalPodAutoscaler that Kubeflow creates for an elastic job with metrics. It returns nil
// for other jobs, and for a job whose name the API server generates.
func (p *pyTorch) scaler() []result {
	const field = "spec.elasticPolicy.metrics"
	if p.spec.ElasticPolicy == nil || p.job.Spec.Elastic == nil || len(p.spec.ElasticPolicy.Metrics) == 0 {
		return nil
	}
	if p.name == "" {
		p.notMapped(field, p.spec.ElasticPolicy.Metrics, "spec.elastic",
			"A HorizontalPodAutoscaler needs the name of the job, which the API server generates.")
		return nil
	}
	scaler := result{conversion: &conversion{}, object: &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Namespace: p.job.Namespace},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: p.job.APIVersion, Kind: p.job.Kind, Name: p.name,
			},
			MinReplicas: p.job.Spec.Elastic.MinReplicas,
			MaxReplicas: *p.job.Spec.Elastic.MaxReplicas,
			Metrics:     p.spec.ElasticPolicy.Metrics,
		},
	}}
	scaler.move(field, "spec.metrics")
	scaler.changed(field, "", "",
		"Kubeflow creates this object, and deletes it with the job. Here, you create and delete it.")
	return []result{scaler}
}
