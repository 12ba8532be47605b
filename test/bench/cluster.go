package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

const (
	jobController     = "job-controller"
	pytorchController = "pytorch-controller"
	// leaseNamespace is where controllers elect their leader. No job is there.
	leaseNamespace = metav1.NamespaceDefault
	// clusterDomain and image are what controllers are told of where they run.
	clusterDomain = "cluster.local"
	image         = "none"
	// pollInterval and timeout are those of waiting. Nothing that is measured depends on the interval.
	pollInterval = 100 * time.Millisecond
	timeout      = 30 * time.Minute
)

// inParallel is how many requests of a user are under way at once.
const inParallel = 20

// cluster is a fresh control plane for one measurement, with no controller of jobs yet.
type cluster struct {
	*simulated.ControlPlane
	// writes are all that were done.
	writes auditLog
	// pprof is where copies of controllers have their profiles.
	pprof map[string]simulated.Address
	bench *bench
}

// start starts a control plane, and stops it when the measurement is over.
func (b *bench) start(
	ctx context.Context, kind simulated.Kind, measure func(context.Context, *cluster) error,
) (err error) {
	dir, err := os.MkdirTemp(b.options.Dir, "cluster-")
	if err != nil {
		return err
	}
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	var crds []string
	for _, module := range []string{"pytorch", "tensorboard", "scheduler"} {
		crds = append(crds, filepath.Join(b.options.Repo, module, "config/crd"))
	}
	plane, err := simulated.Start(ctx, simulated.Options{
		Kind: kind, CRDs: crds, Dir: dir, Programs: b.options.Programs,
		APIServer: map[string]string{"audit-policy-file": policy, "audit-log-path": log, "audit-log-maxsize": "0"},
		// The controller of Jobs is a program of its own, so that what it takes is known.
		// Nor are pods collected that have ended, which starts with the 12,501st: then jobs that others still work on would
		// run twice.
		ControllerManager: append([]string{"--controllers=*,-" + jobController, "--terminated-pod-gc-threshold=0"}, tuned...),
		KwokPerNode:       true,
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, plane.Stop())
		if err == nil {
			err = os.RemoveAll(dir) // what went wrong is in the logs
		}
	}()
	if err := pytorchv1beta1.AddToScheme(plane.Client.Scheme()); err != nil {
		return err
	}
	config := unlimited(plane.Config)
	if plane.Client, err = client.New(config, client.Options{Scheme: plane.Client.Scheme()}); err != nil {
		return err
	}
	plane.Config = config
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	version, err := discovered.ServerVersion()
	if err != nil {
		return err
	}
	b.kubernetes = version.GitVersion
	cpus := make([]string, nodes)
	for i := range cpus {
		cpus[i] = "4000"
	}
	if _, err := plane.AddNodes(ctx, cpus...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the API server does not end before those that watch it
	return measure(ctx, &cluster{
		ControlPlane: plane, writes: auditLog(log), pprof: map[string]simulated.Address{}, bench: b,
	})
}

// tuned are the flags of a kube-controller-manager for a busy cluster.
var tuned = []string{"--kube-api-qps=2000", "--kube-api-burst=4000"}

// unlimited returns the configuration of a client that is as fast as the API server.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// follow calls update for each change of an object of a kind that the selector matches, one after the other, until the
// context ends. Before is nil of an object that was not known, which may have changed several times since its creation
// if a watch was interrupted.
func (c *cluster) follow(
	ctx context.Context, kind client.Object, selector labels.Selector, update func(before, after any),
) error {
	seen, err := ctrlcache.New(c.Config, ctrlcache.Options{
		Scheme: c.Client.Scheme(), DefaultLabelSelector: selector, DefaultTransform: onlyPhase,
	})
	if err != nil {
		return err
	}
	informer, err := seen.GetInformer(ctx, kind, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { update(nil, object) }, UpdateFunc: update,
	}); err != nil {
		return err
	}
	go func() { _ = seen.Start(ctx) }() // it fails when the context is over
	seen.WaitForCacheSync(ctx)
	return nil
}

// onlyPhase leaves of a pod what is followed of it.
func onlyPhase(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec, pod.ManagedFields, pod.Annotations = corev1.PodSpec{}, nil, nil
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	}
	return object, nil
}

// namespace creates one.
func (c *cluster) namespace(ctx context.Context, name string) error {
	return c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// runJobController starts the controller of batch/v1 Jobs.
func (c *cluster) runJobController(ctx context.Context) error {
	return c.RunControllerManager(ctx, jobController,
		append([]string{"--controllers=" + jobController, "--concurrent-job-syncs=20"}, tuned...)...)
}

// runPyTorchController starts a copy of the pytorch-controller with the flags that it ships with. Its user is named
// like the copy.
func (c *cluster) runPyTorchController(ctx context.Context, copyName string) error {
	return c.runController(ctx, pytorchController, copyName)
}

func (c *cluster) runController(ctx context.Context, program, name string, flags ...string) error {
	kubeconfig, err := c.Kubeconfig(name, name, "system:masters")
	if err != nil {
		return err
	}
	health, err := simulated.Listen()
	if err != nil {
		return err
	}
	pprof, err := simulated.Listen()
	if err != nil {
		return err
	}
	c.pprof[name] = pprof
	argv := append([]string{
		filepath.Join(c.bench.options.Controllers, program), "--kubeconfig=" + kubeconfig, "--image=" + image,
		"--cluster-domain=" + clusterDomain,
		"--leader-election-namespace=" + leaseNamespace,
		"--metrics-bind-address=0", "--health-probe-bind-address=" + health.String(),
		"--pprof-bind-address=" + pprof.String(),
	}, flags...)
	return c.Run(ctx, name, argv, simulated.Probe("http://"+health.String()+"/readyz", ""))
}

// profile writes what a controller and the API server take their time for, from now on. It returns an error if one has
// no answer.
func (c *cluster) profile(ctx context.Context, controller string) error {
	seconds := fmt.Sprintf("?seconds=%d", int(c.bench.scale.profile.Seconds()))
	admin, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	apiServer, _, err := rest.DefaultServerUrlFor(c.Config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for name, get := range map[string]func() ([]byte, error){
		controller: func() ([]byte, error) {
			return simulated.Get(ctx, http.DefaultClient, "http://"+c.pprof[controller].String()+"/debug/pprof/profile"+seconds)
		},
		"kube-apiserver": func() ([]byte, error) {
			return simulated.Get(ctx, admin, apiServer.JoinPath("/debug/pprof/profile").String()+seconds)
		},
	} {
		group.Go(func() error {
			content, err := get()
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(c.bench.options.Profiles, name+".pb.gz"), content, 0o600)
		})
	}
	return group.Wait()
}

// leads waits until the lease of a program is held, and returns it.
func (c *cluster) leads(ctx context.Context, program string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, c.eventually(ctx, program+" leads", func(ctx context.Context) (bool, error) {
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: program}, lease)
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", client.IgnoreNotFound(err)
	})
}

// eventually waits until something is so.
func (c *cluster) eventually(ctx context.Context, what string, isSo func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, isSo); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// pods returns the pods of a namespace that are in a phase.
func (c *cluster) pods(ctx context.Context, namespace string, phase corev1.PodPhase) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := c.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"status.phase": string(phase)})
	return list.Items, err
}

// podsAre waits until so many pods of the namespace are in a phase.
func (c *cluster) podsAre(ctx context.Context, namespace string, phase corev1.PodPhase, n int) error {
	return c.eventually(ctx, fmt.Sprintf("%d pods are %s", n, phase), func(ctx context.Context) (bool, error) {
		pods, err := c.pods(ctx, namespace, phase)
		return len(pods) >= n, err
	})
}

// queue creates a queue for all that the nodes have.
func (c *cluster) queue(ctx context.Context, name string) error {
	return c.Client.Create(ctx, &schedulerv1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       schedulerv1beta1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}},
	})
}
