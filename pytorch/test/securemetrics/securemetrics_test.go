// Package securemetrics scrapes the pytorch-controller with --metrics-secure. A real API server reviews the tokens. The
// controller has the permissions of the component config/securemetrics.
package securemetrics

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/kit/controlplane"
	"tensorstack.dev/jobs/kit/suite"
	"tensorstack.dev/jobs/pytorch"
)

const (
	configFolder = "../../config"
	component    = configFolder + "/securemetrics"
)

var (
	plane   *controlplane.ControlPlane
	address string
)

func TestIntegration(t *testing.T) { suite.Run(t, "pytorch-controller") }

var _ = BeforeSuite(func() {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // finds a free port
	Expect(err).NotTo(HaveOccurred())
	address = listener.Addr().String()
	Expect(listener.Close()).To(Succeed())
	plane = suite.Controller{
		Program:   manager.JobProgram(pytorch.Controller(), controller.DefaultOptions()),
		Namespace: "t9k-pytorch", ConfigFolder: configFolder,
		Options: func(options *manager.Options) { options.MetricsBindAddress, options.MetricsSecure = address, true },
	}.Start()
})

// tokenOf creates a ServiceAccount and returns a token for it, like the token of Prometheus.
func tokenOf(ctx context.Context, name string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	Expect(plane.Client.Create(ctx, account)).To(Succeed())
	request := &authenticationv1.TokenRequest{}
	Expect(plane.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// allow binds a ServiceAccount to the ClusterRole of the component for reading metrics.
func allow(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(plane.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tensorstack-pytorch-metrics-reader",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	})).To(Succeed())
}

// scraped is the response to a scrape.
type scraped struct {
	Status int
	Body   string
}

// scrape returns a function that scrapes the controller. It sends the token, if the token is not empty.
func scrape(ctx context.Context, token string) func() (scraped, error) {
	scraper := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate is self-signed
	}}
	return func() (scraped, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			return scraped{}, err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := scraper.Do(request)
		if err != nil {
			return scraped{}, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return scraped{response.StatusCode, string(body)}, err
	}
}

var _ = Describe("The metrics of a controller with --metrics-secure", Ordered, func() {
	It("are served to nobody while the controller has no permission to create reviews", func(ctx context.Context) {
		allowedLater := tokenOf(ctx, "early")
		Eventually(ctx, scrape(ctx, allowedLater)).Should(Equal(scraped{503, "Service Unavailable\n"}))
		Expect(plane.Grant(ctx, component)).To(Succeed())
		Eventually(ctx, scrape(ctx, allowedLater)).Should(Equal(scraped{403, "Forbidden\n"}))
		allow(ctx, "early")
		Eventually(ctx, scrape(ctx, allowedLater)).Should(HaveField("Status", 200))
	})

	It("are served to a ServiceAccount with the ClusterRole metrics-reader", func(ctx context.Context) {
		token := tokenOf(ctx, "prometheus")
		allow(ctx, "prometheus")
		Eventually(ctx, scrape(ctx, token)).Should(And(
			HaveField("Status", 200), HaveField("Body", ContainSubstring("tensorstack_build_info{"))))
	})

	It("are not served to a ServiceAccount without the ClusterRole metrics-reader", func(ctx context.Context) {
		got, err := scrape(ctx, tokenOf(ctx, "tenant"))()
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(scraped{403, "Forbidden\n"}))
	})

	It("are not served to a client with a forged token", func(ctx context.Context) {
		got, err := scrape(ctx, "forged")()
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(scraped{401, "Unauthorized\n"}))
	})

	It("are not served to a client without a token", func(ctx context.Context) {
		got, err := scrape(ctx, "")()
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(scraped{401, "Unauthorized\n"}))
	})

	It("are not served over plain HTTP", func(ctx context.Context) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
		Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
		Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
	})
})
