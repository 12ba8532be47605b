// Package scheduler is the scheduler-controller: it makes Queues and PodGroups real on a scheduler that is there
// already, its engine.
package scheduler

import (
	"context"
	"errors"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/manager"
)

// Options are the settings of the controller.
type Options struct {
	// Engine that schedules: native or volcano.
	Engine string
	// ExtenderBindAddress is where the scheduler of Volcano asks whose pods may be evicted; 0 is nowhere.
	ExtenderBindAddress string
	// Workers is how many queues are reconciled at the same time.
	Workers int
	// Clock tells the time.
	Clock clock.PassiveClock
}

// DefaultOptions returns the defaults of the flags.
func DefaultOptions() Options {
	return Options{Engine: "native", ExtenderBindAddress: ":8082", Workers: 4, Clock: clock.RealClock{}}
}

// Program puts the scheduler-controller into the shell of all controllers. The options are the defaults of its flags.
func Program(options Options) manager.Program {
	return manager.Program{
		Name:  "scheduler-controller",
		Short: "Makes Queues and PodGroups real on the scheduler of a cluster",
		AddToScheme: func(scheme *runtime.Scheme) error {
			return errors.Join(v1beta1.AddToScheme(scheme), volcanov1beta1.AddToScheme(scheme))
		},
		Flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&options.Engine, "engine", options.Engine,
				"scheduler that places the pods: native, which is kube-scheduler with the feature gate GenericWorkload, or volcano")
			flags.StringVar(
				&options.ExtenderBindAddress,
				"extender-bind-address",
				options.ExtenderBindAddress,
				"address at which the scheduler of Volcano asks whose pods may be evicted for another queue, with --engine=volcano; 0 turns it off, and nothing is evicted",
			)
			flags.IntVar(&options.Workers, "workers", options.Workers, "queues that are reconciled at the same time")
		},
		Cache: func(*runtime.Scheme) (cache.Options, error) {
			grouped, err := labels.NewRequirement(v1beta1.LabelGroupName, selection.Exists, nil)
			if err != nil {
				return cache.Options{}, err
			}
			return cache.Options{
				ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.NewSelector().Add(*grouped)}},
				DefaultTransform: manager.Strip(strip),
			}, nil
		},
		Setup: func(ctx context.Context, mgr ctrl.Manager, _ manager.Options) error {
			e, err := newEngine(options.Engine, mgr.GetClient(), mgr.GetAPIReader(), options.Clock)
			if err != nil {
				return err
			}
			r := &reconciler{
				client: mgr.GetClient(), reader: mgr.GetAPIReader(), engine: e, events: mgr.GetEventRecorder("tensorstack-jobs"),
				clock: options.Clock,
			}
			if v, isVolcano := e.(*volcano); isVolcano {
				if err := v.setupWithManager(ctx, mgr, r.observe, options.ExtenderBindAddress); err != nil {
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
