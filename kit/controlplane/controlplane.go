// Package controlplane runs a controller against a real API server in tests. The controller has its shipped CRDs and
// RBAC, and its writes are recorded. There is no kubelet. Tests start and end pods by writing their status.
package controlplane

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	sigsyaml "sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/common/manager"
)

// ControlPlane is an API server on which the CRDs and the RBAC of a controller are installed.
type ControlPlane struct {
	// Config and Client have all permissions.
	Config *rest.Config
	Client client.Client
	// Writes are the writes of the controller.
	Writes Writes

	environment    *envtest.Environment
	namespace      string
	serviceAccount string
}

// Start starts an API server and creates the objects in the folder config: the CRDs in config/crd, and the objects in
// config/controller.yaml. If config/rights.yaml exists, Start also creates the policies in that file, which limit the
// permissions of the controller. `make generate` writes these files from config/controller and config/rights. The
// controller uses the service account with the given name in the namespace. Start returns an error if
// $KUBEBUILDER_ASSETS is not set, if the API server does not start, or if the API server rejects an object.
func Start(
	ctx context.Context, config, namespace, serviceAccount string, addToScheme func(*runtime.Scheme) error,
) (*ControlPlane, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("$KUBEBUILDER_ASSETS is not set: run the tests with `make test`, which builds the API server")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), addToScheme(scheme)); err != nil {
		return nil, err
	}
	environment, err := StartAPIServer(func() *envtest.Environment {
		return &envtest.Environment{
			CRDDirectoryPaths: []string{filepath.Join(config, "crd")}, ErrorIfCRDPathMissing: true,
		}
	})
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{
		Config: environment.Config, environment: environment, namespace: namespace, serviceAccount: serviceAccount,
	}
	manifests := []string{filepath.Join(config, "controller.yaml")}
	if rights := filepath.Join(config, "rights.yaml"); isFile(rights) {
		manifests = append(manifests, rights)
	}
	if err := c.install(ctx, manifests, scheme); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Stop stops the API server, and saves the writes of the controller if they are recorded.
func (c *ControlPlane) Stop() error {
	err := c.environment.Stop()
	if folder := os.Getenv(recordingVariable); folder != "" {
		err = errors.Join(err, c.Writes.save(folder, c.serviceAccount))
	}
	return err
}

// crds are the shipped CRDs of the controllers on which other controllers depend. They are copies that `make generate`
// writes, because a module that is used alone cannot read the files of other modules.
//
//go:embed crds
var crds embed.FS

// The controllers on which other controllers depend.
const (
	Scheduler   = "scheduler"
	TensorBoard = "tensorboard"
)

// The timeout for the creation and the deletion of CRDs, and the interval at which functions check whether they are
// complete. The timeout is long because the API server retries the deletion of a CRD only after a minute if objects
// block the deletion.
const (
	patience     = 3 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// InstallCRDs creates the CRDs of a controller on which others depend, and returns when the API server serves them.
func (c *ControlPlane) InstallCRDs(controller string) error {
	objects, err := crdsOf(controller)
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{
		CRDs: objects, MaxTime: patience, PollInterval: pollInterval,
	})
	return err
}

// UninstallCRDs deletes the CRDs of a controller on which others depend. It returns only when the API server has
// deleted the CRDs and all their objects, so that the caller can create the CRDs again. It returns an error if ctx
// ends or the timeout passes first.
func (c *ControlPlane) UninstallCRDs(ctx context.Context, controller string) error {
	objects, err := crdsOf(controller)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.awaitStorage(ctx, object); err != nil {
			return fmt.Errorf("waiting for the API server to list the objects of CRD %s: %w", object.Name, err)
		}
	}
	if err := envtest.UninstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: objects}); err != nil {
		return err
	}
	for _, object := range objects {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		err := wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, func(ctx context.Context) (bool, error) {
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), crd)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			return fmt.Errorf("waiting for the API server to delete CRD %s with the conditions %v: %w",
				object.Name, conditions, err)
		}
	}
	return nil
}

// awaitStorage returns when the API server can list the objects of a CRD, or when the CRD does not exist. If a CRD is
// deleted before its storage is initialized, the API server (1.37) cannot list the objects that it must delete, even
// minutes later.
func (c *ControlPlane) awaitStorage(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.ListKind,
	})
	return wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, func(ctx context.Context) (bool, error) {
		err := c.Client.List(ctx, list)
		if apierrors.IsTooManyRequests(err) {
			return false, nil // the storage is initializing
		}
		if meta.IsNoMatchError(err) {
			return true, nil
		}
		return true, client.IgnoreNotFound(err)
	})
}

func crdsOf(controller string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	folder := path.Join("crds", controller)
	files, err := crds.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var objects []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		content, err := crds.ReadFile(path.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := sigsyaml.Unmarshal(content, crd); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		objects = append(objects, crd)
	}
	return objects, nil
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func (c *ControlPlane) install(ctx context.Context, manifests []string, scheme *runtime.Scheme) (err error) {
	if c.Client, err = client.New(c.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for _, file := range manifests {
		if err := c.apply(ctx, file); err != nil {
			return fmt.Errorf("applying %s: %w", file, err)
		}
	}
	return nil
}

// apply creates the objects in a file. Namespaced objects are created in the namespace of the controller. The subjects
// of role bindings get the same namespace, which contains the service account of the controller.
func (c *ControlPlane) apply(ctx context.Context, file string) error {
	content, err := os.Open(file) //nolint:gosec // the test names the folder
	if err != nil {
		return err
	}
	defer content.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(content, 4096)
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		decoded, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if err != nil {
			return err
		}
		object := decoded.(client.Object) //nolint:forcetypeassert // a manifest contains only client.Objects
		namespaced, err := c.Client.IsObjectNamespaced(object)
		if err != nil {
			return err
		}
		if namespaced {
			object.SetNamespace(c.namespace)
		}
		switch binding := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			binding.Subjects[0].Namespace = c.namespace
		case *rbacv1.RoleBinding:
			binding.Subjects[0].Namespace = c.namespace
		}
		if err := c.Client.Create(ctx, object); err != nil {
			return err
		}
	}
}

// Grant gives the controller the permissions of a kustomize component, such as ../config/networkpolicies. It applies
// the patches of the component to the ClusterRole and creates the objects of the component.
func (c *ControlPlane) Grant(ctx context.Context, component string) error {
	content, err := os.ReadFile(filepath.Join(component, "kustomization.yaml")) //nolint:gosec // the test names the folder
	if err != nil {
		return err
	}
	var parsed struct {
		Resources []string
		Patches   []struct {
			Target struct{ Name string }
			Patch  string
		}
	}
	if err := sigsyaml.Unmarshal(content, &parsed); err != nil {
		return fmt.Errorf("reading %s: %w", component, err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tensorstack-" + c.serviceAccount}}
	for _, file := range parsed.Resources {
		if err := c.apply(ctx, filepath.Join(component, file)); err != nil {
			return fmt.Errorf("applying %s of %s: %w", file, component, err)
		}
	}
	granted := len(parsed.Resources) > 0
	for _, p := range parsed.Patches {
		if p.Target.Name != role.Name {
			continue
		}
		patch, err := sigsyaml.YAMLToJSON([]byte(p.Patch))
		if err != nil {
			return fmt.Errorf("reading %s: %w", component, err)
		}
		if err := c.Client.Patch(ctx, role, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return fmt.Errorf("applying %s: %w", component, err)
		}
		granted = true
	}
	if !granted {
		return fmt.Errorf("component %s has neither objects nor a patch for the ClusterRole %s", component, role.Name)
	}
	return nil
}

// Controller returns the configuration of a client that has the permissions of the controller's service account and
// whose writes are recorded.
func (c *ControlPlane) Controller() *rest.Config {
	restricted := rest.CopyConfig(c.Config)
	restricted.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", c.namespace, c.serviceAccount),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + c.namespace, "system:authenticated"},
	}
	if os.Getenv(recordingVariable) != "" {
		restricted.ContentType = "application/json" // by default, many kinds are sent in a binary format
		c.Writes.recordContent()
	}
	restricted.Wrap(c.Writes.count)
	return restricted
}

// Options returns the default options of a controller for this control plane. The metrics server and the health probe
// server are disabled.
func (c *ControlPlane) Options() manager.Options {
	options := manager.DefaultOptions()
	options.MetricsBindAddress = "0"
	options.HealthProbeBindAddress = "0"
	options.LeaderElectionNamespace = c.namespace
	options.PodNamespace = c.namespace
	options.Image = "controller:test"
	options.ClusterDomain = "cluster.local"
	return options
}

// ChangePod changes the node and the status of a pod, as the scheduler and the kubelet can. It returns the error of the
// API server.
func (c *ControlPlane) ChangePod(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod)) error {
	changed := pod.DeepCopy()
	change(changed)
	if node := changed.Spec.NodeName; node != pod.Spec.NodeName {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if err := c.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), binding); err != nil {
			return err
		}
		bound := &corev1.Pod{}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), bound); err != nil {
			return err
		}
		changed.ResourceVersion = bound.ResourceVersion
	}
	return c.Client.Status().Update(ctx, changed)
}
