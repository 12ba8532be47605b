// Package test runs the pytorch-controller against a real API server: the CRD as it is shipped, the RBAC as it is shipped,
// and pods that the tests let run and end as a kubelet would.
package test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"tensorstack.dev/jobs/common/frameworktest/controlplane"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch"
)

var (
	k8s client.Client
	// plane is what the controller runs against.
	plane *controlplane.ControlPlane
)

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "pytorch-controller")
}

var _ = BeforeSuite(func() {
	logger := zap.New(zap.WriteTo(GinkgoWriter))
	ctrl.SetLogger(logger)

	controller := pytorch.Controller()
	ctx, stop := context.WithCancel(context.Background())
	var err error
	plane, err = controlplane.Start(ctx, "../config", "t9k-pytorch", controller.Name, controller.AddToScheme)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(plane.Stop)
	k8s = plane.Client

	options := plane.Options()
	options.Engine.PeerGrace = time.Second
	options.Engine.FailureWindow = 0 // these pods report when the test says so
	config := plane.Controller()
	config.Wrap(podCreations.wrap)
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Run(ctx, controller, config, options, logger) }()
	DeferCleanup(func() {
		stop()
		Eventually(stopped).Should(Receive(BeNil()))
	})
})

// newNamespace returns the name of a fresh namespace.
func newNamespace(ctx context.Context) string {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}
