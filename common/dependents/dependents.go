// Package dependents manages the PodGroup, the Workload and the TensorBoard of a job. The job owns them, and other
// controllers reconcile them. All kinds are optional: their CRDs need not be installed.
//
// Each kind has one file. The file defines which fields of the object the job controller reads, which object the job
// needs, which changes the controller makes to get it, and which status the job reports. All kinds share the code to
// watch objects (watch.go), and the code to read and write them (store.go).
//
// Decisions are pure functions, as in package plan.
package dependents
