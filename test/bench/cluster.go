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

	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	pytorchv1beta1 "tensorstack.dev/jobs/pytorch/api/v1beta1"
	"tensorstack.dev/jobs/test/simulated"
)

const (
	jobController     = "job-controller"
	pytorchController = "pytorch-controller"
	// leaseNamespace is the namespace of the Leases for leader election. It has no jobs.
	leaseNamespace = metav1.NamespaceDefault
	// clusterDomain and image are the values of the controllers' flags --cluster-domain and --image.
	clusterDomain = "cluster.local"
	image         = "none"
	// pollInterval is the time between two checks of the function eventually, which fails after timeout. No measured
	// time depends on pollInterval.
	pollInterval = 100 * time.Millisecond
	timeout      = 30 * time.Minute
)

// inParallel is the maximum number of requests that the benchmark sends at the same time in the role of users.
const inParallel = 20

// cluster is a new control plane for one measurement. At first, neither the pytorch-controller nor the controller of
// batch/v1 Jobs runs in it.
type cluster struct {
	*simulated.ControlPlane
	// writes is the log of all writes.
	writes auditLog
	// pprof maps the name of each controller's process to its pprof address.
	pprof map[string]simulated.Address
	bench *bench
}

// start starts a control plane, runs the measurement on it, and stops it.
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
		// The controller of batch/v1 Jobs runs in a separate process, so that its CPU time can be measured. By default,
		// Kubernetes deletes ended pods when there are more than 12,500. Here it does not: if such a pod belonged to an
		// unfinished Job, the controller of Jobs would create a new pod for it.
		ControllerManager: append([]string{"--controllers=*,-" + jobController, "--terminated-pod-gc-threshold=0"}, tuned...),
		KwokPerNode:       true,
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, plane.Stop())
		if err == nil {
			err = os.RemoveAll(dir) // after an error, the logs are kept
		}
	}()
	scheme := plane.Client.Scheme()
	if err := errors.Join(pytorchv1beta1.AddToScheme(scheme), kueuev1beta2.AddToScheme(scheme)); err != nil {
		return err
	}
	config := unlimited(plane.Config)
	if plane.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
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
	defer cancel() // ends the watches: the API server does not stop while there are watches
	return measure(ctx, &cluster{
		ControlPlane: plane, writes: auditLog(log), pprof: map[string]simulated.Address{}, bench: b,
	})
}

// tuned are flags of kube-controller-manager for a busy cluster.
var tuned = []string{"--kube-api-qps=2000", "--kube-api-burst=4000"}

// unlimited returns a copy of the configuration without client-side rate limits.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// follow watches the objects of a kind that match the selector until the context ends. It calls the function update
// when an object is created or changed, but not when the object is deleted. It never makes two calls at the same
// time. In the first call for an object, the argument before is nil. If the watch was interrupted, the first call can
// show an object that has already changed since its creation.
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
	go func() { _ = seen.Start(ctx) }() // an error is expected when the context ends
	seen.WaitForCacheSync(ctx)
	return nil
}

// onlyPhase removes the spec, the managed fields and the annotations of a pod. Of the status, it keeps only the
// phase.
func onlyPhase(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec, pod.ManagedFields, pod.Annotations = corev1.PodSpec{}, nil, nil
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	}
	return object, nil
}

// namespace creates a namespace.
func (c *cluster) namespace(ctx context.Context, name string) error {
	return c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// runJobController starts the controller of batch/v1 Jobs.
func (c *cluster) runJobController(ctx context.Context) error {
	return c.RunControllerManager(ctx, jobController,
		append([]string{"--controllers=" + jobController, "--concurrent-job-syncs=20"}, tuned...)...)
}

// runPyTorchController starts a copy of the pytorch-controller with default settings. The copy authenticates as the
// user copyName.
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

// profile takes CPU profiles of a controller and of the API server, beginning now, and writes them to the profile
// folder.
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

// leads waits until the Lease of a program has a holder, and returns the Lease.
func (c *cluster) leads(ctx context.Context, program string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, c.eventually(ctx, program+" leads", func(ctx context.Context) (bool, error) {
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: program}, lease)
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", client.IgnoreNotFound(err)
	})
}

// eventually waits until the condition is true. The parameter what describes the condition in the error message.
func (c *cluster) eventually(ctx context.Context, what string, condition wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, timeout, true, condition); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// pods returns the pods of a namespace in a phase.
func (c *cluster) pods(ctx context.Context, namespace string, phase corev1.PodPhase) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := c.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"status.phase": string(phase)})
	return list.Items, err
}

// podsAre waits until at least n pods of the namespace are in a phase.
func (c *cluster) podsAre(ctx context.Context, namespace string, phase corev1.PodPhase, n int) error {
	return c.eventually(ctx, fmt.Sprintf("%d pods are %s", n, phase), func(ctx context.Context) (bool, error) {
		pods, err := c.pods(ctx, namespace, phase)
		return len(pods) >= n, err
	})
}

// queue creates a Queue without a quota that all namespaces can use.
func (c *cluster) queue(ctx context.Context, name string) error {
	return c.Client.Create(ctx, &schedulerv1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       schedulerv1beta1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}},
	})
}
