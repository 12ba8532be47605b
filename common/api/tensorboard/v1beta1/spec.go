package v1beta1

import (
	corev1 "k8s.io/api/core/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// FilesetURI names a folder of training logs: `t9k://pvc/<claim>/<path>` or `t9k://minio/<secret>/<bucket>/<path>`.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^t9k://(pvc/[a-z0-9]([-a-z0-9.]*[a-z0-9])?|minio/[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-z0-9][-a-z0-9.]*[a-z0-9])(/.*)?$')",message="a fileset must look like t9k://pvc/<claim>/<path> or t9k://minio/<secret>/<bucket>/<path>"
type FilesetURI string

// TensorBoardSpec is the desired state of a TensorBoard.
type TensorBoardSpec struct {
	// The folders of training logs to show, as fileset URIs.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	TrainingLogFilesets []FilesetURI `json:"trainingLogFilesets,omitempty"`

	// The places of training logs to show. Several places are shown as named runs.
	//
	// +optional
	LogDir *LogDir `json:"logDir,omitempty"`

	// Image that runs TensorBoard. Unset: the image that the TensorBoard controller is configured with.
	//
	// +optional
	Image string `json:"image,omitempty"`

	// Set true to stop TensorBoard and keep its address. Defaults to false.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Resources of the TensorBoard container. Unset: what the TensorBoard controller is configured with.
	//
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Scheduler of the TensorBoard pod. Unset: the cluster's default scheduler.
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
	// Name of the PersistentVolumeClaim.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Folders in the volume, relative to its root. Unset: the whole volume.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	SubPath []string `json:"subPath,omitempty"`
}

// S3LogDir names folders in S3 compatible storage.
type S3LogDir struct {
	// Secret of the same namespace that holds either the key .s3cfg (host_base, access_key, secret_key, use_https) or the
	// keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL.
	SecretRef corev1.LocalObjectReference `json:"secretRef"`

	// Folders, as s3://<bucket>/<path>.
	//
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	URI []string `json:"uri"`
}

// HTTPLogDir names log files on HTTP servers.
type HTTPLogDir struct {
	// Addresses of the files, as http:// or https:// URLs.
	//
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	URL []string `json:"url"`
}
