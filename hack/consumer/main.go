// The consumer is a program of somebody else's, who takes the modules from a module proxy: it knows all kinds.
package main

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"

	scheduler "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboard "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	deepspeed "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorch "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflow "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

func main() {
	scheme := runtime.NewScheme()
	err := errors.Join(deepspeed.AddToScheme(scheme), pytorch.AddToScheme(scheme), scheduler.AddToScheme(scheme),
		tensorboard.AddToScheme(scheme), tensorflow.AddToScheme(scheme))
	for _, object := range []runtime.Object{
		&deepspeed.DeepSpeedJob{}, &pytorch.PyTorchTrainingJob{}, &scheduler.PodGroup{}, &scheduler.Queue{}, &tensorboard.TensorBoard{},
		&tensorflow.TensorFlowTrainingJob{},
	} {
		kinds, _, unknown := scheme.ObjectKinds(object)
		err = errors.Join(err, unknown)
		fmt.Println(kinds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
