// SPDX-License-Identifier: Apache-2.0
//! Options that every role shares, the endpoint made of them, and the events it prints.
use clap::Args;
use iroh::{
    Endpoint, EndpointAddr, EndpointId, RelayConfig, RelayMap, RelayMode, RelayUrl, SecretKey,
    TransportAddr, Watcher,
    address_lookup::{DnsAddressLookup, MemoryLookup},
    dns::DnsResolver,
    endpoint::{Connection, PathEvent, PortmapperConfig, QuicTransportConfig, VarInt, presets},
    tls::CaTlsConfig,
};
use iroh_relay::RelayQuicConfig;
use n0_error::{AnyError, Result, StdResultExt, anyerr};
use n0_future::StreamExt;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

#[derive(Args)]
pub struct EndpointArgs {
    /// Seed of the key, 64 hexadecimal digits; a new one otherwise
    #[arg(long)]
    pub key: Option<SecretKey>,
    /// UDP address to bind; all interfaces otherwise
    #[arg(long)]
    pub bind: Vec<SocketAddr>,
    #[arg(long)]
    pub relay: Vec<RelayUrl>,
    /// Port of address discovery at the relays, 0 for none
    #[arg(long, default_value_t = 7842)]
    pub qad_port: u16,
    /// PEM file: the only certificates relays are verified with
    #[arg(long)]
    pub ca: Option<PathBuf>,
    /// Name server for everything
    #[arg(long)]
    pub dns: Option<SocketAddr>,
    /// Domain under which endpoints are looked up by TXT records
    #[arg(long)]
    pub origin: Option<String>,
    /// Send only by relays
    #[arg(long)]
    pub relay_only: bool,
    /// Receive window of a stream in bytes; iroh's own (1,250,000) otherwise
    #[arg(long)]
    pub window: Option<u32>,
    /// Streams a peer may have open at once; iroh's own (100) otherwise
    #[arg(long)]
    pub streams: Option<u32>,
    /// Worker threads, 0 for everything on the main thread
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
}

/// ID[=PLACE,...]
#[derive(Clone)]
pub struct Node(pub EndpointAddr);

impl FromStr for Node {
    type Err = AnyError;

    fn from_str(text: &str) -> Result<Self> {
        let (id, places) = text.split_once('=').unwrap_or((text, ""));
        let mut addr = EndpointAddr::new(EndpointId::from_str(id).anyerr()?);
        for place in places.split(',').filter(|p| !p.is_empty()) {
            addr = match place.strip_prefix("relay=") {
                Some(url) => addr.with_relay_url(RelayUrl::from_str(url).anyerr()?),
                None => addr.with_ip_addr(SocketAddr::from_str(place).anyerr()?),
            };
        }
        Ok(Self(addr))
    }
}

pub fn say(event: Value) {
    println!("{event}");
}

fn place(addr: &TransportAddr) -> String {
    match addr {
        TransportAddr::Relay(url) => format!("relay={url}"),
        TransportAddr::Ip(ip) => ip.to_string(),
        other => format!("{other:?}"),
    }
}

impl EndpointArgs {
    fn relays(&self) -> RelayMode {
        if self.relay.is_empty() {
            return RelayMode::Disabled;
        }
        let map = RelayMap::empty();
        for url in &self.relay {
            let quic = (self.qad_port != 0).then(|| RelayQuicConfig::new(self.qad_port));
            map.insert(url.clone(), Arc::new(RelayConfig::new(url.clone(), quic)));
        }
        RelayMode::Custom(map)
    }

    fn transport(&self) -> QuicTransportConfig {
        let mut config = QuicTransportConfig::builder();
        if let Some(n) = self.streams {
            config = config.max_concurrent_bidi_streams(VarInt::from_u32(n));
        }
        if let Some(n) = self.window {
            config = config
                .stream_receive_window(VarInt::from_u32(n))
                .send_window(u64::from(n) * 8);
        }
        config.build()
    }

    /// Binds, prints 'start', and keeps printing the endpoint's addresses as they change.
    pub async fn open(&self, alpns: Vec<Vec<u8>>, known: &[Node]) -> Result<Endpoint> {
        let memory = MemoryLookup::new();
        for node in known.iter().filter(|n| !n.0.is_empty()) {
            memory.add_endpoint_info(node.0.clone());
        }
        let mut b = Endpoint::builder(presets::Minimal)
            .alpns(alpns)
            .relay_mode(self.relays())
            .portmapper_config(PortmapperConfig::Disabled)
            .transport_config(self.transport())
            .address_lookup(memory);
        if let Some(key) = &self.key {
            b = b.secret_key(key.clone());
        }
        if self.relay_only || !self.bind.is_empty() {
            b = b.clear_ip_transports();
        }
        for addr in &self.bind {
            b = b.bind_addr(*addr).anyerr()?;
        }
        if let Some(file) = &self.ca {
            let roots: Vec<_> = CertificateDer::pem_file_iter(file)
                .anyerr()?
                .collect::<Result<_, _>>()
                .anyerr()?;
            b = b.ca_tls_config(CaTlsConfig::custom_roots(roots));
        }
        if let Some(server) = self.dns {
            b = b.dns_resolver(DnsResolver::with_nameserver(server));
        }
        if let Some(origin) = &self.origin {
            b = b.address_lookup(DnsAddressLookup::builder(origin.clone()));
        }
        let endpoint = b.bind().await?;
        let addrs: Vec<_> = endpoint
            .bound_sockets()
            .iter()
            .map(SocketAddr::to_string)
            .collect();
        say(json!({"event": "start", "id": endpoint.id().to_string(), "addrs": addrs}));
        print_addrs(&endpoint);
        Ok(endpoint)
    }
}

/// The places of an endpoint as it tells others, public ones that a relay has seen included.
fn print_addrs(endpoint: &Endpoint) {
    let mut changes = endpoint.watch_addr().stream();
    tokio::spawn(async move {
        while let Some(addr) = changes.next().await {
            let places: Vec<_> = addr.addrs.iter().map(place).collect();
            say(json!({"event": "addrs", "addrs": places}));
        }
    });
}

/// Prints each path that the connection opens, selects and closes.
pub fn print_paths(conn: &Connection) {
    let mut events = conn.path_events();
    let peer = conn.remote_id().to_string();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let (kind, to) = match &event {
                PathEvent::Opened { remote_addr, .. } => ("opened", place(remote_addr)),
                PathEvent::Selected { remote_addr, .. } => ("selected", place(remote_addr)),
                PathEvent::Closed { remote_addr, .. } => ("closed", place(remote_addr)),
                _ => continue,
            };
            say(json!({"event": "path", "peer": peer, "kind": kind, "addr": to}));
        }
    });
}

/// The open paths with their round trips, as JSON.
pub fn paths(conn: &Connection) -> Value {
    conn.paths()
        .iter()
        .map(|p| {
            let s = p.stats();
            json!({"addr": place(p.remote_addr()), "selected": p.is_selected(), "relay": p.is_relay(),
                   "rtt_us": p.rtt().as_micros() as u64, "cwnd": s.cwnd, "mtu": s.current_mtu,
                   "lost": s.lost_packets, "sent": s.sent_packets})
        })
        .collect()
}

/// Ends an endpoint; one that hangs is left to the end of the process.
pub async fn close(endpoint: Endpoint) -> Result<()> {
    let closing = tokio::time::timeout(Duration::from_secs(5), endpoint.close());
    closing
        .await
        .map_err(|_| anyerr!("the endpoint does not close"))
}
