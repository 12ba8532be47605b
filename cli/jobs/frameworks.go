// Written by make generate.

package jobs

import (
	deepspeedFramework "tensorstack.dev/jobs/deepspeed"
	deepspeedConfig "tensorstack.dev/jobs/deepspeed/config"
	pytorchFramework "tensorstack.dev/jobs/pytorch"
	pytorchConfig "tensorstack.dev/jobs/pytorch/config"
	tensorflowFramework "tensorstack.dev/jobs/tensorflow"
	tensorflowConfig "tensorstack.dev/jobs/tensorflow/config"
)

// Kinds are all job kinds.
var Kinds = []*Kind{
	kindOf(pytorchFramework.Controller(), pytorchConfig.CRD, pytorchConfig.Controller),
	kindOf(tensorflowFramework.Controller(), tensorflowConfig.CRD, tensorflowConfig.Controller),
	kindOf(deepspeedFramework.Controller(), deepspeedConfig.CRD, deepspeedConfig.Controller),
}
