// Package phases counts the objects of a kind by phase, for Prometheus.
package phases

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Objects are the objects of a kind in the cache. At each scrape, a collector computes its metrics from them.
type Objects struct {
	// Reader reads from the cache.
	Reader client.Reader
	// Scheme is a scheme in which the kind is registered.
	Scheme *runtime.Scheme
	// Kind is the kind of the objects.
	Kind schema.GroupVersionKind
	// Elected is closed when this process becomes the leader. Only the leader reports, so that sums over all instances
	// of the controller are correct.
	Elected <-chan struct{}
}

// Each calls a function for each object. The function must not change the object. The result is true if the metrics
// are complete. See List for the other cases.
func (o Objects) Each(do func(runtime.Object)) bool {
	empty, err := o.Scheme.New(o.Kind.GroupVersion().WithKind(o.Kind.Kind + "List"))
	if err != nil {
		ctrllog.Log.Error(err, "Failed to list objects for the metrics", "kind", o.Kind.Kind)
		return false
	}
	list := empty.(client.ObjectList) //nolint:forcetypeassert // the list of a client.Object is a client.ObjectList
	return List(o.Elected, o.Reader, list) && meta.EachListItem(list, func(item runtime.Object) error {
		do(item)
		return nil
	}) == nil
}

// List reads lists from the cache for a collector, which must not change the objects. The result is false if this
// process is not the leader yet, or if a list cannot be read. In the second case, the error is logged.
func List(elected <-chan struct{}, cache client.Reader, lists ...client.ObjectList) bool {
	select {
	case <-elected:
	default:
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, list := range lists {
		if err := cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			kind := strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List")
			ctrllog.Log.Error(err, "Failed to list objects for the metrics", "kind", kind)
			return false
		}
	}
	return true
}

// Collector counts the objects of a kind by phase. It counts the objects in the cache on every scrape, so that the
// numbers cannot drift. It implements prometheus.Collector.
type Collector struct {
	Objects

	// Phases are the values of the label phase.
	Phases []string
	// PhaseOf returns the phase of an object.
	PhaseOf func(runtime.Object) string
	// Metric describes the gauge, which has the label phase.
	Metric *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.Metric }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	count := map[string]int{}
	if !c.Each(func(object runtime.Object) { count[c.PhaseOf(object)]++ }) {
		return
	}
	for _, phase := range c.Phases {
		metrics <- prometheus.MustNewConstMetric(c.Metric, prometheus.GaugeValue, float64(count[phase]), phase)
	}
}
