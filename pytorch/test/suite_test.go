// Package test runs the pytorch-controller against a real API server: the CRD as it is shipped, the RBAC as it is shipped,
// and pods that the tests let run and end as a kubelet would.
package test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/pytorch/api/v1beta1"
)

var (
	k8s    client.Client
	config *rest.Config
	writes = &writeCounter{}
)

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "pytorch-controller")
}

var _ = BeforeSuite(func() {
	Expect(os.Getenv("KUBEBUILDER_ASSETS")).NotTo(BeEmpty(), "run the tests by `make test`, which builds the API server that they need")
	logger := zap.New(zap.WriteTo(GinkgoWriter))
	ctrl.SetLogger(logger)

	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../config/crd"}, ErrorIfCRDPathMissing: true}
	var err error
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)

	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1beta1.AddToScheme(scheme)).To(Succeed())
	k8s, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	ctx, stop := context.WithCancel(context.Background())
	Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t9k-pytorch"}})).To(Succeed())
	applyRBAC(ctx)

	options := manager.DefaultOptions()
	options.MetricsBindAddress = "0"
	options.HealthProbeBindAddress = "0"
	options.LeaderElectionNamespace = "t9k-pytorch"
	options.Engine.PeerGrace = time.Second
	options.Engine.Image = "controller:test"
	options.Engine.ClusterDomain = "cluster.local"
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Run(ctx, pytorch.Controller(), asController(config), options, logger) }()
	DeferCleanup(func() {
		stop()
		Eventually(stopped).Should(Receive(BeNil()))
	})
})

// asController returns the configuration of a client that may do what the controller's ServiceAccount may, and whose
// writes are counted.
func asController(config *rest.Config) *rest.Config {
	restricted := rest.CopyConfig(config)
	restricted.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:t9k-pytorch:pytorch-controller",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:t9k-pytorch", "system:authenticated"},
	}
	restricted.Wrap(writes.wrap)
	return restricted
}

// applyRBAC creates the roles that are shipped.
func applyRBAC(ctx context.Context) {
	for _, file := range []string{"controller.yaml", "leader-election.yaml", "users.yaml"} {
		content, err := os.Open(filepath.Join("../config/rbac", file))
		Expect(err).NotTo(HaveOccurred())
		defer content.Close()
		decoder := yaml.NewYAMLOrJSONDecoder(content, 4096)
		for {
			var raw runtime.RawExtension
			if decoder.Decode(&raw) != nil {
				break
			}
			object, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
			Expect(err).NotTo(HaveOccurred())
			switch object := object.(type) {
			case *rbacv1.Role:
				object.Namespace = "t9k-pytorch"
			case *rbacv1.RoleBinding:
				object.Namespace = "t9k-pytorch"
			}
			Expect(k8s.Create(ctx, object.(client.Object))).To(Succeed())
		}
	}
}

// writeCounter counts the controller's write requests by method and path.
type writeCounter struct {
	mu       sync.Mutex
	requests []string
}

func (c *writeCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			c.mu.Lock()
			c.requests = append(c.requests, request.Method+" "+request.URL.Path)
			c.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// in returns the writes to a namespace that contain the text.
func (c *writeCounter) in(namespace, text string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []string
	for _, r := range c.requests {
		if strings.Contains(r, "/namespaces/"+namespace+"/") && strings.Contains(r, text) {
			found = append(found, r)
		}
	}
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newNamespace returns the name of a fresh namespace.
func newNamespace(ctx context.Context) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}
