// Package dependents reads and writes the PodGroup, the Workload and the TensorBoard of a job. The job owns them, and
// other controllers reconcile them. All kinds are optional: their CRDs need not be installed.
//
// Each kind has one file, which defines the fields of the object that the job controller reads. All kinds share the
// code to watch objects (watch.go), and the code to read and write them (store.go). Packages plan/admission and
// plan/tensorboard decide which changes are made.
package dependents
