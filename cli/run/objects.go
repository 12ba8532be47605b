package run

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	deepspeedv1beta1 "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflowv1beta1 "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// AnnotationCode is the annotation with the checksum of the code of a job.
const AnnotationCode = "train.tensorstack.dev/code"

// Objects are the objects of a training.
type Objects struct {
	// Job is the job that trains. It is complete: if its code is in the cluster, it runs as soon as it is created.
	Job jobs.Job
	// ConfigMap has the code. Nil means that the code is too large for a ConfigMap.
	ConfigMap *corev1.ConfigMap
	// Claim is a new claim for the code. Nil means that the code is in a ConfigMap or in an existing claim.
	Claim *corev1.PersistentVolumeClaim
	// Upload is the pod that receives the code for a claim. Nil means that there is nothing to upload.
	Upload *corev1.Pod
	// Digest has the checksum and the size of the code as an archive.
	Digest code.Digest
	// training has the resources of the main container of the job, without GPUs.
	training corev1.ResourceRequirements
}

// New returns the objects of a training with the given code. The error names all invalid options. If all options are
// valid, the error describes the problem of the program.
func New(o Options, c Code) (*Objects, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := o.checkProgram(c.has); err != nil {
		return nil, err
	}
	objects := &Objects{Digest: c.Digest, training: o.resources(0)}
	var source volume
	if c.Content != nil {
		objects.ConfigMap, source = o.configMap(c)
	} else {
		objects.Claim, source = o.claim(c)
		objects.Upload = o.uploadPod(source)
	}
	objects.Job = jobs.Job{Kind: o.Kind, Job: o.job(o.template(source))}
	objects.Job.GetObjectKind().SetGroupVersionKind(o.Kind.GroupVersionKind)
	objects.Job.SetName(o.Name)
	objects.Job.SetNamespace(o.Namespace)
	objects.Job.SetAnnotations(map[string]string{AnnotationCode: "sha256:" + c.Digest.SHA256})
	if o.LocalQueue != "" {
		objects.Job.SetLabels(map[string]string{labelQueueName: o.LocalQueue})
	}
	return objects, nil
}

// All returns all objects in an order in which a user can create them with kubectl.
func (o *Objects) All() []client.Object {
	var all []client.Object
	if o.ConfigMap != nil {
		all = append(all, o.ConfigMap)
	}
	if o.Claim != nil {
		all = append(all, o.Claim)
	}
	if o.Upload != nil {
		all = append(all, o.Upload)
	}
	return append(all, o.Job.Job)
}

// UploadLikeTraining gives the pod of the upload the CPU and memory of the training. By default, the pod requests
// little, so that it fits on a node beside other trainings. A LimitRange can reject such small requests.
func (o *Objects) UploadLikeTraining() { o.Upload.Spec.Containers[0].Resources = o.training }

// SetPaused sets whether the job is paused. A job that is not paused gets no runMode.
func (o *Objects) SetPaused(paused bool) {
	var mode *batchv1beta1.RunMode
	if paused {
		mode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	}
	switch job := o.Job.Job.(type) {
	case *pytorchv1beta1.PyTorchTrainingJob:
		job.Spec.RunMode = mode
	case *tensorflowv1beta1.TensorFlowTrainingJob:
		job.Spec.RunMode = mode
	case *deepspeedv1beta1.DeepSpeedJob:
		job.Spec.RunMode = mode
	}
}

// SetOwner makes the job the owner of all other objects. The job must already have the UID that the API server
// chooses.
func (o *Objects) SetOwner() {
	owner := metav1.OwnerReference{
		APIVersion: o.Job.Kind.GroupVersion().String(), Kind: o.Job.Kind.Kind, Name: o.Job.GetName(), UID: o.Job.GetUID(),
	}
	for _, object := range o.All() {
		if object.GetUID() != owner.UID {
			object.SetOwnerReferences([]metav1.OwnerReference{owner})
		}
	}
}

// job returns a job of the kind of the options.
func (o *Options) job(template corev1.PodTemplateSpec) framework.Job {
	switch o.Kind.ShortName {
	case pytorch:
		return o.pytorch(template)
	case tensorflow:
		return o.tensorflow(template)
	case deepspeed:
		return o.deepspeed(template)
	}
	panic(fmt.Sprintf("the kind %s has no jobs of kubectl train run", o.Kind.Kind))
}

// pytorch returns a PyTorchTrainingJob. If it can have several processes or is elastic, it runs torchrun. Otherwise,
// it runs python3.
func (o *Options) pytorch(template corev1.PodTemplateSpec) *pytorchv1beta1.PyTorchTrainingJob {
	job := &pytorchv1beta1.PyTorchTrainingJob{}
	main := &template.Spec.Containers[0]
	replicas := pytorchv1beta1.ReplicaSpec{Type: worker, RestartPolicy: batchv1beta1.RestartPolicyOnFailure}
	main.Args = o.commandLine()
	if o.maxNodes() > 1 || o.processes() > 1 || o.Elastic != nil {
		job.Spec.TorchrunConfig = &pytorchv1beta1.TorchrunConfig{Enabled: true, ProcPerNode: fmt.Sprint(o.processes())}
	} else {
		main.Command = []string{python}
	}
	if o.Elastic != nil {
		job.Spec.Elastic = o.elastic()
		// Whenever another replica joins or leaves, torchrun uses up one of its restarts.
		job.Spec.TorchrunConfig.MaxRestarts = new(int32(elasticRestarts))
	} else {
		replicas.Replicas = new(o.nodes())
	}
	replicas.Template = template
	job.Spec.ReplicaSpecs = []pytorchv1beta1.ReplicaSpec{replicas}
	job.Spec.RunPolicy, job.Spec.Scheduler, job.Spec.Progress = o.runPolicy(), o.scheduler(), o.progress()
	job.Spec.TensorBoardSpec = o.tensorBoard()
	return job
}

// elasticRestarts is the limit of restarts by torchrun in an elastic job, as in examples/pytorch/elastic.yaml.
const elasticRestarts = 20

// tensorflow returns a job that starts one process in each replica.
func (o *Options) tensorflow(template corev1.PodTemplateSpec) *tensorflowv1beta1.TensorFlowTrainingJob {
	job := &tensorflowv1beta1.TensorFlowTrainingJob{}
	template.Spec.Containers[0].Command = []string{python}
	template.Spec.Containers[0].Args = o.commandLine()
	job.Spec.ReplicaSpecs = []tensorflowv1beta1.ReplicaSpec{{
		Type: tensorflowv1beta1.ReplicaTypeWorker, Replicas: new(o.nodes()), Template: template,
		RestartPolicy: batchv1beta1.RestartPolicyOnFailure,
	}}
	job.Spec.RunPolicy, job.Spec.Scheduler, job.Spec.Progress = o.runPolicy(), o.scheduler(), o.progress()
	job.Spec.TensorBoardSpec = o.tensorBoard()
	return job
}

// deepspeed returns a job that starts its processes with the launcher of DeepSpeed.
func (o *Options) deepspeed(template corev1.PodTemplateSpec) *deepspeedv1beta1.DeepSpeedJob {
	job := &deepspeedv1beta1.DeepSpeedJob{}
	program := &deepspeedv1beta1.RunType{Python: o.commandLine()}
	if o.isModule() {
		program = &deepspeedv1beta1.RunType{Module: o.Program[1:]}
	}
	job.Spec.Config = &deepspeedv1beta1.Config{SlotsPerWorker: new(o.processes()), Run: program}
	job.Spec.Worker = deepspeedv1beta1.Worker{Template: template, RestartPolicy: batchv1beta1.RestartPolicyOnFailure}
	if o.Elastic != nil {
		job.Spec.Elastic = o.elastic()
	} else {
		job.Spec.Worker.Replicas = new(o.nodes())
	}
	job.Spec.RunPolicy, job.Spec.Scheduler, job.Spec.Progress = o.runPolicy(), o.scheduler(), o.progress()
	return job
}
