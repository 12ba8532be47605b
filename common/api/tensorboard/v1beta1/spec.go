package v1beta1

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// FilesetURI is the address of a folder of training logs: `t9k://pvc/<claim>/<path>` or
// `t9k://minio/<secret>/<bucket>/<path>`. The path must stay within its claim or bucket, so `..` is not allowed. At
// most 1024 characters.
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
	// Folders of training logs to show, as at most 64 fileset URIs. TensorBoard shows the logs of each folder as
	// separate runs, which are named after the folder.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	TrainingLogFilesets []FilesetURI `json:"trainingLogFilesets,omitempty"`

	// Other locations of training logs to show. TensorBoard shows the logs of each location as separate runs, which are
	// named after the location. At least one of logDir and trainingLogFilesets is required. The locations in both,
	// together with the names of their runs, can have at most 240 KiB as JSON, because they are stored in an annotation
	// of the pod. A TensorBoard that exceeds this limit is Failed with the reason CreateFailed.
	//
	// +optional
	LogDir *LogDir `json:"logDir,omitempty"`

	// Image that runs TensorBoard. It must contain the program `tensorboard`. At most 4096 characters. Defaults to the
	// image in the configuration of the TensorBoard controller.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Image string `json:"image,omitempty"`

	// Set to true to stop TensorBoard and keep its address. Set to false to start it again. The controller sets it to
	// true when TensorBoard has received no request for a configured time. Omit this field from a manifest that is
	// applied repeatedly: false would start TensorBoard each time. Defaults to false.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Resources of the TensorBoard container. Defaults to the resources in the configuration of the TensorBoard
	// controller.
	//
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Scheduler of the TensorBoard pod. Defaults to the default scheduler of the cluster. It cannot be changed.
	//
	// +optional
	Scheduler *batchv1beta1.SchedulePolicy `json:"scheduler,omitempty"`
}

// LogDir lists locations of training logs.
type LogDir struct {
	// Folders in at most 64 PersistentVolumeClaims of the same namespace. They are mounted read-only.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	PVC []PVCLogDir `json:"pvc,omitempty"`

	// Folders in S3-compatible storage.
	//
	// +optional
	S3 *S3LogDir `json:"s3,omitempty"`

	// Log files on HTTP servers.
	//
	// +optional
	HTTP *HTTPLogDir `json:"http,omitempty"`
}

// PVCLogDir lists folders in a PersistentVolumeClaim.
type PVCLogDir struct {
	// Name of the PersistentVolumeClaim, from 1 to 253 characters. To select folders in the claim, use subPath.
	//
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name must be the name of a PersistentVolumeClaim: lower case letters, digits, '-' and '.' (to select folders in the claim, use subPath)"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Folders in the volume, relative to its root, at most 64. Absolute paths and '..' are not allowed. If unset, the
	// whole volume is shown.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	SubPath []SubPath `json:"subPath,omitempty"`
}

// SubPath is the path of a folder in a volume, relative to the root of the volume. From 1 to 1024 characters.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="!self.matches('^/|(^|/)[.][.](/|$)')",message="subPath must be relative to the root of the volume and stay in it: a leading '/' and '..' are not allowed"
type SubPath string

// S3URI is the address of a folder in S3-compatible storage: s3://<bucket>/<path>. At most 1024 characters.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^s3://[a-z0-9][-a-z0-9.]*[a-z0-9](/.*)?$')",message="an S3 folder must look like s3://<bucket>/<path>"
// +kubebuilder:validation:XValidation:rule="!self.matches('/[.][.](/|$)')",message="an S3 folder must stay in its bucket: '..' is not allowed"
type S3URI string

// HTTPURL is the address of a log file on an HTTP server. At most 2048 characters.
//
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@]+/[^?#]*[^/?#]$') && isURL(self)",message="a log file must look like http://<host>/<path> or https://<host>/<path>, without a user name, password or query, since everybody who can read this object could see them"
type HTTPURL string

// S3LogDir lists folders in S3-compatible storage.
type S3LogDir struct {
	// Reference to a Secret in the same namespace. The Secret must contain either the key .s3cfg (with host_base,
	// access_key, secret_key and use_https) or the keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL.
	//
	// +kubebuilder:validation:XValidation:rule="self.?name.orValue('').size() > 0",message="secretRef.name is required"
	SecretRef corev1.LocalObjectReference `json:"secretRef"`

	// From 1 to 64 folders, each as s3://<bucket>/<path>. Only event files, and files that plugins store next to them, are
	// fetched from these folders and their subfolders.
	//
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	URI []S3URI `json:"uri"`
}

// HTTPLogDir lists log files on HTTP servers.
type HTTPLogDir struct {
	// From 1 to 64 addresses of event files, as http:// or https:// URLs. Credentials and queries are not allowed.
	//
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	URL []HTTPURL `json:"url"`
}
