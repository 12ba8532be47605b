// Package suite runs the Ginkgo specs of a package with a controller on a real API server.
package suite

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/kit/controlplane"
)

// Run runs all specs of a package. The specs test the controller with the given name. With -short, Run skips the
// specs.
func Run(t *testing.T, controller string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the specs take minutes, and -short is set")
	}
	gomega.RegisterFailHandler(ginkgo.Fail)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	gomega.SetDefaultEventuallyTimeout(time.Minute)
	gomega.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	ginkgo.RunSpecs(t, controller)
}

// Controller is a controller program with its shipped configuration.
type Controller struct {
	manager.Program
	// Namespace in which the controller is installed.
	Namespace string
	// ConfigFolder contains the CRD and the RBAC manifests of the controller.
	ConfigFolder string
	// Components are subfolders of ConfigFolder with kustomize components. The controller also gets their permissions.
	Components []string
	// Options changes the options of the controller. Nil means the defaults.
	Options func(*manager.Options)
	// Wrap wraps the transport of the controller's requests to the API server. Nil means no wrapper.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Start starts an API server and the controller. Call it in BeforeSuite. Both stop at the end of the suite.
func (c Controller) Start() *controlplane.ControlPlane {
	ginkgo.GinkgoHelper()
	logger := zap.New(zap.WriteTo(ginkgo.GinkgoWriter))
	ctrl.SetLogger(logger)
	ctx, stop := context.WithCancel(context.Background())
	plane, err := controlplane.Start(ctx, c.ConfigFolder, c.Namespace, c.Name, c.AddToScheme)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(plane.Stop)
	for _, component := range c.Components {
		gomega.Expect(plane.Grant(ctx, filepath.Join(c.ConfigFolder, component))).To(gomega.Succeed())
	}
	restricted := plane.Controller()
	if c.Wrap != nil {
		restricted.Wrap(c.Wrap)
	}
	options := plane.Options()
	if c.Options != nil {
		c.Options(&options)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Run(ctx, c.Program, restricted, options, logger) }()
	ginkgo.DeferCleanup(func() {
		stop()
		gomega.Eventually(stopped).Should(gomega.Receive(gomega.BeNil()))
	})
	return plane
}
