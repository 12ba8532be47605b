package v1beta1

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// FilesetURI names a folder of training logs: `t9k://pvc/<claim>/<path>` or `t9k://minio/<secret>/<bucket>/<path>`. A
// path stays in its claim or bucket: `..` is refused. At most 1024 characters.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^t9k://(pvc/[a-z0-9]([-a-z0-9.]*[a-z0-9])?|minio/[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9][-a-z0-9.]*[a-z0-9])(/.*)?$')",message="a fileset must look like t9k://pvc/<claim>/<path> or t9k://minio/<secret>/<bucket>/<path>"
// +kubebuilder:validation:XValidation:rule="!self.matches('/[.][.](/|$)')",message="a fileset must stay in its claim or bucket: '..' is not allowed"
type FilesetURI string

// TensorBoardSpec is the desired state of a TensorBoard.
//
// +kubebuilder:validation:XValidation:rule="self.?trainingLogFilesets.orValue([]).size() > 0 || (has(self.logDir) && (self.logDir.?pvc.orValue([]).size() > 0 || has(self.logDir.s3) || has(self.logDir.http)))",message="there are no logs to show: set trainingLogFilesets or logDir"
// +kubebuilder:validation:XValidation:rule="has(self.scheduler) == has(oldSelf.scheduler)",message="scheduler cannot be changed"
type TensorBoardSpec struct {
	// The folders of training logs to show, as at most 64 fileset URIs. Each is shown as runs of its own, named
	// after it.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	TrainingLogFilesets []FilesetURI `json:"trainingLogFilesets,omitempty"`

	// The places of training logs to show, besides trainingLogFilesets. Each is shown as runs of its own, named after it.
	// One of the two is required. What both name, with the names of the runs, may take 240 KiB as JSON, since an
	// annotation of the pod holds it. A TensorBoard with more is Failed, with reason CreateFailed.
	//
	// +optional
	LogDir *LogDir `json:"logDir,omitempty"`

	// Image that runs TensorBoard, with the program `tensorboard` in it. Unset: the image that the TensorBoard controller
	// is configured with. At most 4096 characters.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Image string `json:"image,omitempty"`

	// Set true to stop TensorBoard and keep its address; set false to bring it back. The controller sets it true once
	// nobody has looked at TensorBoard for long. Defaults to false.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Resources of the TensorBoard container. Unset: what the TensorBoard controller is configured with.
	//
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Scheduler of the TensorBoard pod. Unset: the cluster's default scheduler. It cannot be changed.
	//
	// +optional
	Scheduler *batchv1beta1.SchedulePolicy `json:"scheduler,omitempty"`
}

// LogDir names places of training logs.
type LogDir struct {
	// Folders in PersistentVolumeClaims of the same namespace. They are mounted read-only.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	PVC []PVCLogDir `json:"pvc,omitempty"`

	// Folders in S3 compatible storage.
	//
	// +optional
	S3 *S3LogDir `json:"s3,omitempty"`

	// Log files on HTTP servers.
	//
	// +optional
	HTTP *HTTPLogDir `json:"http,omitempty"`
}

// PVCLogDir names folders of a PersistentVolumeClaim.
type PVCLogDir struct {
	// Name of the PersistentVolumeClaim. Folders in it are named by subPath.
	//
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name must be that of a PersistentVolumeClaim: lower case letters, digits, '-' and '.'; folders in it are named by subPath"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Folders in the volume, relative to its root, at most 64. Unset: the whole volume. Absolute paths and '..' are
	// refused.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	SubPath []SubPath `json:"subPath,omitempty"`
}

// SubPath names a folder in a volume, relative to its root, in 1 to 1024 characters.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="!self.matches('^/|(^|/)[.][.](/|$)')",message="subPath must be relative to the root of the volume and stay in it: a leading '/' and '..' are not allowed"
type SubPath string

// S3URI names a folder in S3 compatible storage, as s3://<bucket>/<path>. At most 1024 characters.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^s3://[a-z0-9][-a-z0-9.]*[a-z0-9](/.*)?$')",message="an S3 folder must look like s3://<bucket>/<path>"
// +kubebuilder:validation:XValidation:rule="!self.matches('/[.][.](/|$)')",message="an S3 folder must stay in its bucket: '..' is not allowed"
type S3URI string

// HTTPURL is the address of a log file on an HTTP server. At most 2048 characters.
//
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@]+/[^?#]*[^/?#]$') && isURL(self)",message="a log file must look like http://<host>/<path> or https://<host>/<path>, without a user name, password or query, which others could read here"
type HTTPURL string

// S3LogDir names folders in S3 compatible storage.
type S3LogDir struct {
	// Secret of the same namespace that holds either the key .s3cfg (host_base, access_key, secret_key, use_https) or the
	// keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL.
	//
	// +kubebuilder:validation:XValidation:rule="self.?name.orValue('').size() > 0",message="secretRef.name is required"
	SecretRef corev1.LocalObjectReference `json:"secretRef"`

	// Folders, as s3://<bucket>/<path>, from 1 to 64. Of what is below them, event files and what plugins keep beside
	// them are fetched.
	//
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	URI []S3URI `json:"uri"`
}

// HTTPLogDir names log files on HTTP servers.
type HTTPLogDir struct {
	// Addresses of the event files, as http:// or https:// URLs, from 1 to 64. Credentials are refused.
	//
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	URL []HTTPURL `json:"url"`
}
