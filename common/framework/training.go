package framework

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	tensorboardv1beta1 "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// TrainingFramework is implemented by a Framework that can make jobs from Python programs. `kubectl train run` creates
// such jobs.
type TrainingFramework[J Job] interface {
	// MaxProcesses returns the maximum number of processes in one replica. It is at least 1.
	MaxProcesses() int32
	// CanScale reports whether jobs of this kind can be elastic.
	CanScale() bool
	// NewTraining returns a job that runs the program of the training. The job has no metadata.
	NewTraining(training Training) J
}

// Training describes a Python program and how a job of any kind runs it.
type Training struct {
	// Program is the command line without the Python interpreter: a Python file, or -m and a module, and then the
	// arguments. Each word is written as in the args of a container, where $$ stands for $.
	Program []string
	// Template of the pods. Its only container, which runs the program, has neither a command nor args.
	Template corev1.PodTemplateSpec
	// Nodes is the number of replicas at the start, and Processes is the number of processes of each replica. Both are at
	// least 1. Processes is at most TrainingFramework.MaxProcesses.
	Nodes, Processes int32
	// Elastic configures elastic scaling. Nil means that the job does not scale.
	Elastic *batchv1beta1.ElasticConfig
	// RunMode of the job. Nil means that the job is not paused.
	RunMode *batchv1beta1.RunMode
	// RunPolicy of the job.
	RunPolicy batchv1beta1.RunPolicy
	// Scheduler of the job. Nil means that the replicas are not scheduled as a gang.
	Scheduler *batchv1beta1.SchedulePolicy
	// Progress is set if the training reports its progress.
	Progress *batchv1beta1.ProgressSpec
	// TensorBoard shows the logs of the training. It is set only if the job is a TensorBoardJob.
	TensorBoard *tensorboardv1beta1.TensorBoardSpec
}

// IsModule reports whether the program is a module.
func (t Training) IsModule() bool { return t.Program[0] == "-m" }

// Python is the command that runs Python in the images of trainings.
const Python = "python3"
