package tenants

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/test/simulated"
)

var _ = Describe("The metrics of a controller", Label("network", "pytorch"), func() {
	It("cannot be read by tenants, and unknown tokens do not block Prometheus", func(ctx context.Context) {
		c := start(ctx, pytorch.module)
		c.addComponent(ctx, pytorch, "securemetrics")
		metrics := must(simulated.Listen())
		c.run(ctx, pytorch, "--metrics-bind-address="+metrics.String())
		url := "https://" + metrics.String() + "/metrics"

		Expect(scrape(ctx, url, "", tenantAddress)).To(Equal(http.StatusUnauthorized))
		Expect(scrape(ctx, url, c.token(ctx, c.attacker, attacker), tenantAddress)).To(Equal(http.StatusForbidden))

		token := c.token(ctx, c.Client, "t9k-pytorch")
		c.mayReadMetrics(ctx, "t9k-pytorch")
		refused := floodWithTokens(ctx, url)
		Eventually(ctx, func() (int32, error) { return refused.Load(), c.unless(nil) }).
			WithTimeout(5 * bound).Should(BeNumerically(">", 20_000))
		Eventually(ctx, func() (int, error) { return scrape(ctx, url, token, "127.0.0.2") }).
			Should(Equal(http.StatusOK))
		c.works(ctx, pytorch, "job")
		c.expectUnharmed()
	})

	It("would be readable by tenants without --metrics-secure", func(ctx context.Context) {
		c := start(ctx, pytorch.module)
		metrics := must(simulated.Listen())
		c.run(ctx, pytorch, "--metrics-bind-address="+metrics.String())
		Expect(scrape(ctx, "http://"+metrics.String()+"/metrics", "", tenantAddress)).To(Equal(http.StatusOK))
	})
})

// tenantAddress is the address of the attacker's pods.
const tenantAddress = "127.0.77.1"

// scrape sends a scrape request from an address and returns the HTTP status. The request has the token, unless the
// token is empty.
func scrape(ctx context.Context, url, token, from string) (status int, err error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	scraper := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is self-signed
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := scraper.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// account is the name of a ServiceAccount.
const account = "scraper"

// token creates a ServiceAccount and returns a token for it.
func (c *cluster) token(ctx context.Context, as client.Client, namespace string) string {
	GinkgoHelper()
	created := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}
	Expect(create(ctx, as, namespace, created)).To(Succeed())
	request := &authenticationv1.TokenRequest{}
	Expect(as.SubResource("token").Create(ctx, created, request)).To(Succeed())
	return request.Status.Token
}

// mayReadMetrics binds the ServiceAccount in the namespace to the ClusterRole that allows Prometheus to read metrics.
// The component securemetrics provides this ClusterRole.
func (c *cluster) mayReadMetrics(ctx context.Context, namespace string) {
	GinkgoHelper()
	Expect(c.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tensorstack-pytorch-metrics-reader",
		},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	})).To(Succeed())
}

// floodWithTokens sends requests with unknown tokens until the spec ends. It keeps 100 requests open, which is more
// than the maximum number of connections of the controller. The result counts the requests that have ended.
func floodWithTokens(ctx context.Context, url string) *atomic.Int32 {
	ctx, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	var refused atomic.Int32
	for i := range 100 {
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = scrape(ctx, url, fmt.Sprintf("unknown-%d-%d", i, n), tenantAddress)
				refused.Add(1)
			}
		}()
	}
	return &refused
}
