// Package config contains the manifests of the zebra-controller, for programs that work without a cluster. The
// controller does not import it.
package config

import _ "embed" // for the manifests

// CRD is the manifest of the CustomResourceDefinition of ZebraTrainingJobs.
//
//go:embed crd/batch.tensorstack.dev_zebratrainingjobs.yaml
var CRD []byte

// Controller contains the manifests of the installation in config/controller.
//
//go:embed controller.yaml
var Controller []byte
