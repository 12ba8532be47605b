// Written by make generate.

package main

import (
	"k8s.io/apimachinery/pkg/runtime"

	scheduler "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	tensorboard "tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	deepspeed "tensorstack.dev/jobs/deepspeed/api/v1beta1"
	pytorch "tensorstack.dev/jobs/pytorch/api/v1beta1"
	tensorflow "tensorstack.dev/jobs/tensorflow/api/v1beta1"
)

// schemes are the functions that add the kinds of each API to a scheme.
var schemes = []func(*runtime.Scheme) error{
	scheduler.AddToScheme,
	tensorboard.AddToScheme,
	deepspeed.AddToScheme,
	pytorch.AddToScheme,
	tensorflow.AddToScheme,
}
