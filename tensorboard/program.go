// Package tensorboard is the tensorboard-controller. It runs each TensorBoard of a cluster in a pod with a sidecar, and
// suspends TensorBoards that are idle.
package tensorboard

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
	"tensorstack.dev/jobs/common/loop"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/tensorboard/sidecar"
)

// Program returns the tensorboard-controller as a program. The options are the default values of its flags.
func Program(options Options) manager.Program {
	return manager.Program{
		Name:  "tensorboard-controller",
		Short: "Runs the TensorBoards of a cluster and suspends idle ones",
		AddToScheme: func(scheme *runtime.Scheme) error {
			return errors.Join(v1beta1.AddToScheme(scheme), schedulerv1beta1.AddToScheme(scheme))
		},
		Flags: options.addFlags,
		Cache: func(*runtime.Scheme, manager.Options) (cache.Options, error) {
			ours, err := labels.NewRequirement(v1beta1.LabelName, selection.Exists, nil)
			if err != nil {
				return cache.Options{}, err
			}
			labelled := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
			return cache.Options{
				ByObject: map[client.Object]cache.ByObject{
					&corev1.Pod{}: labelled, &corev1.Service{}: labelled, &networkingv1.NetworkPolicy{}: labelled,
					&v1beta1.TensorBoard{}: {Transform: boards.Transform},
				},
				DefaultTransform: manager.Strip(options.strip), // called only after Setup has completed the options
			}, nil
		},
		Setup: func(_ context.Context, mgr ctrl.Manager, shell manager.Options) error {
			options.ClusterDomain, options.Namespace, options.SidecarImage = shell.ClusterDomain, shell.PodNamespace, shell.Image
			if err := options.validate(); err != nil {
				return fmt.Errorf("reading the flags: %w", err)
			}
			return newReconciler(loop.ClusterOf(mgr), options).setupWithManager(mgr)
		},
		Commands: []*cobra.Command{sidecar.Command()},
	}
}
