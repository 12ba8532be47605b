// Package scheduler is the scheduler-controller. It implements Queues and PodGroups on an existing scheduler, the
// engine.
package scheduler

import (
	"context"
	"errors"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/manager"
)

// Options are the settings of the controller.
type Options struct {
	// Engine is the scheduler that places the pods: native or volcano.
	Engine string
	// ExtenderBindAddress is the address of the extender. Volcano's scheduler asks the extender which pods it can evict.
	// "0" turns the extender off.
	ExtenderBindAddress string
	// Workers is how many queues are reconciled concurrently.
	Workers int
	// Clock is the source of the current time.
	Clock clock.PassiveClock
}

// DefaultOptions returns the default values of the flags.
func DefaultOptions() Options {
	return Options{Engine: "native", ExtenderBindAddress: ":8082", Workers: 4, Clock: clock.RealClock{}}
}

// Program returns the scheduler-controller as a program. The options are the default values of its flags.
func Program(options Options) manager.Program {
	return manager.Program{
		Name:  "scheduler-controller",
		Short: "Implements Queues and PodGroups on kube-scheduler or Volcano",
		AddToScheme: func(scheme *runtime.Scheme) error {
			return errors.Join(v1beta1.AddToScheme(scheme), volcanov1beta1.AddToScheme(scheme))
		},
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&options.Engine, "engine", options.Engine,
				"scheduler that places the pods: native (kube-scheduler with the feature gate GenericWorkload) or volcano")
			flags.StringVar(
				&options.ExtenderBindAddress,
				"extender-bind-address",
				options.ExtenderBindAddress,
				"with --engine=volcano, the address at which Volcano's scheduler asks which pods it can evict for another "+
					"queue; 0 turns it off, and no pods are evicted",
			)
			flags.IntVar(&options.Workers, "workers", options.Workers, "number of queues that are reconciled concurrently")
		},
		Cache: func(*runtime.Scheme, manager.Options) (cache.Options, error) {
			hasGroup, err := labels.Parse(v1beta1.LabelGroupName)
			return cache.Options{
				ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: hasGroup}},
				DefaultTransform: manager.Strip(strip),
			}, err
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, _ manager.Options) error {
			r, err := newReconciler(loop.ClusterOf(mgr), options)
			if err != nil {
				return err
			}
			if _, isVolcano := r.engine.(volcano); isVolcano {
				if err := setupVolcano(ctx, mgr, r.observe, options); err != nil {
					return err
				}
			}
			if err := metrics.Registry.Register(newCollector(mgr)); err != nil {
				return err
			}
			return r.setupWithManager(ctx, mgr, options.Workers)
		},
	}
}
