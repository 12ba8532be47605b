package run

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/code"
	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/framework"
)

// AnnotationCode is the annotation with the checksum of the code of a job.
const AnnotationCode = "train.tensorstack.dev/code"

// Objects are the objects of a training.
type Objects struct {
	// Job is the job that trains. It is paused if Options.Paused is set or if Upload is not nil. Otherwise, it runs as
	// soon as it is created.
	Job jobs.Job
	// ConfigMap has the code. Nil means that the code is too large for a ConfigMap.
	ConfigMap *corev1.ConfigMap
	// Claim is a new claim for the code. Nil means that the code is in a ConfigMap or in an existing claim.
	Claim *corev1.PersistentVolumeClaim
	// Upload is the pod that receives the code for a claim. Nil means that there is nothing to upload.
	Upload *corev1.Pod
	// UploadGroup is the PodGroup of Upload, if UploadFromQueue was called. Nil means that Upload is in no queue.
	UploadGroup *schedulerv1beta1.PodGroup
	// Digest has the checksum and the size of the code as an archive.
	Digest code.Digest
	// training has the resources of the main container of the job, without GPUs.
	training corev1.ResourceRequirements
	// queue is the Queue of the job, or empty.
	queue string
}

// New returns the objects of a training with the code in a folder. If options are invalid, the error names all of them.
// Otherwise, an error describes a problem with the program, such as a file that the code does not have, or with
// reading the code.
func New(o Options, folder *code.Folder) (*Objects, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := o.checkProgram(folder.Files); err != nil {
		return nil, err
	}
	o.Nodes = cmp.Or(o.Nodes, o.Elastic.Min, 1)
	//nolint:gosec // MaxProcesses is an int32
	o.Processes = cmp.Or(o.Processes, int32(min(o.GPUs, int64(o.Kind.Trainings.MaxProcesses))), 1)
	digest, err := folder.Digest()
	if err != nil {
		return nil, err
	}
	objects := &Objects{Digest: digest, training: o.resources(0), queue: o.Queue}
	var source volume
	if isSmall(folder) {
		if objects.ConfigMap, source, err = o.configMap(folder); err != nil {
			return nil, err
		}
	} else {
		objects.Claim, source = o.claim(digest.Size)
		objects.Upload = o.uploadPod(source)
	}
	objects.Job = jobs.Job{Kind: o.Kind, Job: o.job(o.template(source), o.Paused || objects.Upload != nil)}
	objects.Job.SetName(o.Name)
	objects.Job.SetNamespace(o.Namespace)
	objects.Job.SetAnnotations(map[string]string{AnnotationCode: "sha256:" + digest.SHA256})
	if o.LocalQueue != "" {
		objects.Job.SetLabels(map[string]string{kueuev1beta2.LabelQueueName: o.LocalQueue})
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

// UploadFromQueue schedules the pod of the upload from the Queue of the job, in a PodGroup of its own. It changes
// nothing if the job has no Queue. By default, the upload does not wait for its turn in the queue, because it needs no
// GPUs. A namespace can require that all pods are scheduled from a queue.
func (o *Objects) UploadFromQueue() {
	if o.queue == "" {
		return
	}
	o.UploadGroup = &schedulerv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Upload.Name, Namespace: o.Upload.Namespace, OwnerReferences: o.Upload.OwnerReferences,
		},
		Spec: schedulerv1beta1.PodGroupSpec{Queue: o.queue, MinMember: 1},
	}
	metav1.SetMetaDataLabel(&o.Upload.ObjectMeta, schedulerv1beta1.LabelGroupName, o.UploadGroup.Name)
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

// job returns a job of the kind of the options, without metadata.
func (o *Options) job(template corev1.PodTemplateSpec, isPaused bool) framework.Job {
	training := framework.Training{
		Program: o.commandLine(), Template: template, Nodes: o.Nodes, Processes: o.Processes,
		RunPolicy: batchv1beta1.RunPolicy{BackoffLimit: new(o.Retries)},
	}
	if o.MaxTime > 0 {
		training.RunPolicy.ActiveDeadlineSeconds = new(int64(o.MaxTime.Seconds()))
	}
	if o.Queue != "" {
		training.Scheduler = &batchv1beta1.SchedulePolicy{T9kScheduler: &batchv1beta1.T9kScheduler{Queue: o.Queue}}
	}
	if o.Progress {
		training.Progress = &batchv1beta1.ProgressSpec{Enabled: true}
	}
	if o.TensorBoard != "" {
		fileset, _ := o.fileset() // validate has returned its error
		training.TensorBoard = &tensorboardv1beta1.TensorBoardSpec{
			TrainingLogFilesets: []tensorboardv1beta1.FilesetURI{tensorboardv1beta1.FilesetURI(fileset)},
		}
	}
	if o.Elastic.Max > 0 {
		training.Elastic = &batchv1beta1.ElasticConfig{
			Enabled: true, ExpectedReplicas: new(o.Nodes),
			MinReplicas: new(o.Elastic.Min), MaxReplicas: new(o.Elastic.Max),
		}
	}
	if isPaused {
		training.RunMode = &batchv1beta1.RunMode{Pause: &batchv1beta1.PauseMode{Enabled: true}}
	}
	return o.Kind.Trainings.New(training)
}
