package tensorboard

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/phases"
)

// newCollector returns a collector that counts TensorBoards by phase. docs/operate/metrics.md describes the metric.
func newCollector(mgr ctrl.Manager) *phases.Collector {
	return &phases.Collector{
		Objects: phases.Objects{
			Reader: mgr.GetCache(), Scheme: mgr.GetScheme(), Kind: v1beta1.GroupVersion.WithKind("TensorBoard"),
			Elected: mgr.Elected(),
		},
		Phases: []string{
			string(v1beta1.TensorBoardPending), string(v1beta1.TensorBoardRunning), string(v1beta1.TensorBoardSuspended),
			string(v1beta1.TensorBoardFailed),
		},
		PhaseOf: func(object runtime.Object) string {
			phase := object.(*v1beta1.TensorBoard).Status.Phase //nolint:forcetypeassert // the collector lists only this kind
			if phase == "" {
				phase = v1beta1.TensorBoardPending // not reconciled yet
			}
			return string(phase)
		},
		Metric: prometheus.NewDesc("tensorstack_tensorboards", "TensorBoards by phase.", []string{"phase"}, nil),
	}
}
