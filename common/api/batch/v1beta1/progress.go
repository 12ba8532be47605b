package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProgressSpec describes how the training reports its progress.
type ProgressSpec struct {
	// Set to true if the training reports its progress. Defaults to false. The controller then adds a sidecar to the
	// pods that can run the process of rank 0. The training reports to the sidecar: Hugging Face Transformers does so
	// without changes, and other programs append lines to a file or send HTTP requests. This field cannot be changed
	// after the job is created.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`
}

// Reports reports whether the training reports its progress.
func (p *ProgressSpec) Reports() bool { return p != nil && p.Enabled }

// ProgressPolicy determines what happens when the training reports no progress for too long.
//
// +kubebuilder:validation:Enum=Notify;Restart
type ProgressPolicy string

const (
	// ProgressPolicyNotify sets the condition Stalled, and emits an event.
	ProgressPolicyNotify ProgressPolicy = "Notify"
	// ProgressPolicyRestart sets the condition Stalled, emits an event, and restarts all replicas together. This counts
	// as one restart.
	ProgressPolicyRestart ProgressPolicy = "Restart"
)

// ProgressStatus is the progress that the training last reported. The reports come from the program of the user, so
// they can be wrong.
type ProgressStatus struct {
	// How much of the training is done, in percent and in steps, for example "42% (420/1000)".
	//
	// +optional
	Summary string `json:"summary,omitempty"`

	// How much of the training is done, in percent, from 0 to 100. If the training does not report a percentage, it is
	// computed from step and totalSteps.
	//
	// +optional
	Percent *int32 `json:"percent,omitempty"`

	// Number of the last step. At least 0. After a restart it can be less than before.
	//
	// +optional
	Step *int64 `json:"step,omitempty"`

	// Number of steps of the whole training. At least 1.
	//
	// +optional
	TotalSteps *int64 `json:"totalSteps,omitempty"`

	// When the training will be done if it keeps the average speed that it has had since its last start. Unset while the
	// job does not run, and if the training does not report both its steps and their total number.
	//
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`

	// The last metrics that the training reported, sorted by name. At most 16.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Metrics []ProgressMetric `json:"metrics,omitempty"`

	// When the training sent its last report, to within a few seconds.
	//
	// +optional
	LastReportTime *metav1.Time `json:"lastReportTime,omitempty"`

	// Name of the replica that sent the last report.
	//
	// +optional
	Replica string `json:"replica,omitempty"`
}

// ProgressMetric is a metric that the training reports.
type ProgressMetric struct {
	// Name of the metric, for example loss. At most 64 characters.
	Name string `json:"name"`

	// Value of the metric: a number, NaN, +Inf or -Inf. At most 32 characters.
	Value string `json:"value"`
}
