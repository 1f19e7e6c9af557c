// SPDX-License-Identifier: Apache-2.0
//! Both roles of iroh-proxy-utils: the device that serves, and the edge that dials.
use crate::endpoint::{EndpointArgs, Node, paths, print_paths, say};
use clap::Args;
use iroh::{
    EndpointId,
    endpoint::Connection,
    protocol::{AcceptError, ProtocolHandler, Router},
};
use iroh_proxy_utils::{
    ALPN, Authority, HttpProxyRequest,
    downstream::{
        DownstreamProxy, EndpointAuthority, HttpProxyOpts, PoolOpts, ProxyMode, StaticForwardProxy,
    },
    upstream::{AuthError, AuthHandler, UpstreamProxy},
};
use n0_error::{Result, StdResultExt, anyerr};
use serde_json::json;
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, signal::unix::Signal};

#[derive(Args)]
pub struct DeviceArgs {
    /// Protocol to accept instead of the one of iroh-proxy-utils
    #[arg(long)]
    alpn: Option<String>,
    /// Refuse requests for this port
    #[arg(long)]
    deny: Option<u16>,
}

struct Rules {
    deny: Option<u16>,
}

impl AuthHandler for Rules {
    async fn authorize<'a>(
        &'a self,
        _remote_id: EndpointId,
        req: &'a HttpProxyRequest,
    ) -> Result<(), AuthError> {
        match req.kind.authority() {
            Ok(to) if Some(to.port) != self.deny => Ok(()),
            _ => Err(AuthError::Forbidden),
        }
    }
}

/// Says who came and by which paths, and leaves the rest to iroh-proxy-utils.
#[derive(Debug)]
struct Watched(UpstreamProxy);

impl ProtocolHandler for Watched {
    async fn accept(&self, conn: Connection) -> Result<(), AcceptError> {
        say(
            json!({"event": "accepted", "peer": conn.remote_id().to_string(), "paths": paths(&conn)}),
        );
        print_paths(&conn);
        self.0.accept(conn).await
    }

    async fn shutdown(&self) {
        self.0.shutdown().await
    }
}

pub async fn device(options: &EndpointArgs, args: DeviceArgs, mut ends: Signal) -> Result<()> {
    let alpn = args.alpn.map_or(ALPN.to_vec(), String::into_bytes);
    let endpoint = options.open(vec![], &[]).await?;
    let proxy = UpstreamProxy::new(Rules { deny: args.deny })?;
    let router = Router::builder(endpoint)
        .accept(alpn, Watched(proxy))
        .spawn();
    ends.recv().await;
    router.shutdown().await.anyerr()
}

#[derive(Args)]
pub struct EdgeArgs {
    node: Node,
    /// LISTEN=HOST:PORT: connections to LISTEN become tunnels to HOST:PORT
    #[arg(long)]
    tcp: Vec<String>,
    /// Address of a forward proxy: absolute requests and CONNECT
    #[arg(long)]
    http: Option<SocketAddr>,
    /// Seconds an unused connection is kept
    #[arg(long, default_value_t = 5)]
    idle: u64,
}

pub async fn edge(options: &EndpointArgs, args: EdgeArgs, mut ends: Signal) -> Result<()> {
    let endpoint = options
        .open(vec![], std::slice::from_ref(&args.node))
        .await?;
    let pool = PoolOpts {
        idle_timeout: Duration::from_secs(args.idle),
        ..PoolOpts::default()
    };
    let proxy = DownstreamProxy::new(endpoint.clone(), pool);
    let id = args.node.0.id;
    let mut modes = Vec::new();
    for spec in &args.tcp {
        let (listen, to) = spec
            .split_once('=')
            .ok_or_else(|| anyerr!("--tcp LISTEN=HOST:PORT"))?;
        let to = EndpointAuthority::new(id, Authority::from_authority_str(to)?);
        modes.push((listen.parse().anyerr()?, ProxyMode::Tcp(to)));
    }
    if let Some(listen) = args.http {
        modes.push((
            listen,
            ProxyMode::Http(HttpProxyOpts::new(StaticForwardProxy(id))),
        ));
    }
    for (listen, mode) in modes {
        let listener = TcpListener::bind::<SocketAddr>(listen).await?;
        let proxy = proxy.clone();
        tokio::spawn(async move { proxy.forward_tcp_listener(listener, mode).await });
    }
    say(json!({"event": "ready"}));
    ends.recv().await;
    crate::endpoint::close(endpoint).await
}
