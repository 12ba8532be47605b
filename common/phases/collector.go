// Package phases counts the objects of a kind by phase, for Prometheus.
package phases

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Collector counts the objects of a kind by phase. It counts the objects in the cache on every scrape, so that the
// numbers cannot drift. It implements prometheus.Collector.
type Collector struct {
	// Reader reads from the cache.
	Reader client.Reader
	// Scheme is a scheme in which the kind is registered.
	Scheme *runtime.Scheme
	// Kind is the kind of the objects.
	Kind schema.GroupVersionKind
	// Phases are the values of the label phase.
	Phases []string
	// PhaseOf returns the phase of an object.
	PhaseOf func(runtime.Object) string
	// Elected is closed when this process becomes the leader. Only the leader counts, so that sums over all replicas of
	// the controller are correct.
	Elected <-chan struct{}
	// Metric describes the gauge, which has the label phase.
	Metric *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.Metric }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-c.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	count, err := c.count(ctx)
	if err != nil {
		ctrllog.Log.Error(err, "Failed to count objects for the metrics", "kind", c.Kind.Kind)
		return
	}
	for _, phase := range c.Phases {
		metrics <- prometheus.MustNewConstMetric(c.Metric, prometheus.GaugeValue, float64(count[phase]), phase)
	}
}

func (c *Collector) count(ctx context.Context) (map[string]int, error) {
	count := map[string]int{}
	err := Each(ctx, c.Reader, c.Scheme, c.Kind, func(object runtime.Object) { count[c.PhaseOf(object)]++ })
	return count, err
}

// Each calls a function for each object of a kind in the cache that the reader reads. The function must not change the
// object.
func Each(
	ctx context.Context, reader client.Reader, scheme *runtime.Scheme, kind schema.GroupVersionKind,
	do func(runtime.Object),
) error {
	empty, err := scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return err
	}
	list := empty.(client.ObjectList) //nolint:forcetypeassert // the list of a client.Object is a client.ObjectList
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		do(item)
		return nil
	})
}
