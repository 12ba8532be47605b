// Package config contains the manifests of the tensorflow-controller, for programs that work without a cluster. The
// controller does not import it.
package config

import _ "embed" // for the manifests

// CRD is the manifest of the CustomResourceDefinition of TensorFlowTrainingJobs.
//
//go:embed crd/batch.tensorstack.dev_tensorflowtrainingjobs.yaml
var CRD []byte

// Controller contains the manifests of the installation in config/controller.
//
//go:embed controller.yaml
var Controller []byte
