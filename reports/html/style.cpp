#include "reports/html/style.h"

namespace reports::html {

const char* style() {
  return R"css(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#57606a;--line:#d0d7de;--panel:#f6f8fa;
--good:#116329;--bad:#a40e26;--open:#7d4e00;--link:#0550ae;
--p0:#3b6fb6;--p1:#8a5bb5;--p2:#2f8f6b;--p3:#b5762a;--p4:#7a7f87;--p5:#b04f86}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--soft:#9da7b3;--line:#3d444d;
--panel:#161b22;--good:#56d364;--bad:#ff8b84;--open:#e3b341;--link:#79b8ff;
--p0:#6ca0e8;--p1:#b48be0;--p2:#57b894;--p3:#dba05a;--p4:#9aa0a8;--p5:#dc7fb4}}
*{box-sizing:border-box}
html{scroll-padding-top:3.2rem}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,"Segoe UI",
Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}
main,nav>div{max-width:76rem;margin:0 auto;padding:0 1rem}
main{padding-bottom:4rem}
h1{font-size:1.6rem;line-height:1.25;margin:1rem 0 .7rem}
h2{font-size:1.3rem;margin:2.2rem 0 .6rem;padding-bottom:.2rem;border-bottom:1px solid var(--line)}
h3{font-size:1.08rem;margin:1.4rem 0 .4rem}
h4{font-size:1rem;margin:1.1rem 0 .3rem}
p{margin:.5rem 0}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,input:focus-visible,.wide:focus-visible,pre:focus-visible{
outline:2px solid var(--link);outline-offset:2px}
:target:not(section){outline:2px solid var(--link);outline-offset:4px;border-radius:4px}
nav{position:sticky;top:0;z-index:1;background:var(--bg);border-bottom:1px solid var(--line)}
nav>div{display:flex;gap:.2rem 1.1rem;align-items:center;overflow-x:auto;white-space:nowrap;
min-height:2.6rem}
#find{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--line);
border-radius:6px;
padding:.3rem .6rem;width:min(100%,22rem);margin:.2rem 0 .5rem}
.word.good{color:var(--good)}.word.bad{color:var(--bad)}.word.open{color:var(--open)}
.wide{overflow-x:auto;margin:.5rem 0 1rem}
table{border-collapse:collapse;font-size:.92rem}
th,td{border:1px solid var(--line);padding:.3rem .55rem;text-align:left;vertical-align:top;
overflow-wrap:normal}
td{max-width:44rem}
thead th{background:var(--panel)}
table.facts th{background:var(--panel);font-weight:600;white-space:nowrap}
table.facts td{overflow-wrap:anywhere}
td.n,.c1 td:nth-child(1),.c2 td:nth-child(2),.c3 td:nth-child(3),.c4 td:nth-child(4),
.c5 td:nth-child(5),.c6 td:nth-child(6),.c7 td:nth-child(7),.c8 td:nth-child(8),
.c9 td:nth-child(9),.c10 td:nth-child(10),.c11 td:nth-child(11),.c12 td:nth-child(12){
text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
table.cases td:nth-child(2){overflow-wrap:anywhere;min-width:12rem}
table.cases td:nth-child(5){min-width:14rem;overflow-wrap:anywhere}
table.layers td{text-align:center;padding:.2rem .3rem}td.hit{color:var(--bad);font-weight:700}
td.calm{color:var(--soft)}
pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;
overflow-x:auto;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:normal}
ol.causes{list-style:none;padding:0;counter-reset:cause}
li.cause,.card{border:1px solid var(--line);border-left:5px solid var(--bad);border-radius:6px;
padding:.3rem 1rem .6rem;margin:.8rem 0;background:var(--bg)}
.card h3{margin-top:.6rem}
ul.links{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:.5rem 0}
ul.links a{display:inline-block;padding:.15rem 0}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0}
summary{cursor:pointer;padding:.45rem .8rem;background:var(--panel);border-radius:6px}
summary .name{font-weight:600;margin-right:.5rem}
.inside{padding:.2rem .8rem .6rem}
ul.bars{list-style:none;padding:0;margin:.4rem 0}
ul.bars>li{display:grid;
grid-template-columns:minmax(9rem,17rem) minmax(6rem,1fr) minmax(10rem,24rem);
gap:.1rem .8rem;align-items:center;padding:.15rem 0;font-size:.92rem}
.words{color:var(--soft)}.words.beyond{color:var(--bad);font-weight:600}
svg.bar{width:100%;height:.85rem;background:var(--panel);border:1px solid var(--line)}
ul.lanes>li{grid-template-columns:5rem 1fr}ul.lanes .words{grid-column:2}
svg.lane{width:100%;height:1.9rem;background:var(--panel);border:1px solid var(--line)}
.p0{fill:var(--p0)}.p1{fill:var(--p1)}.p2{fill:var(--p2)}.p3{fill:var(--p3)}.p4{fill:var(--p4)}
.p5{fill:var(--p5)}
.lane rect,.bar rect{stroke:var(--bg);stroke-width:1;vector-effect:non-scaling-stroke}
.within{fill:var(--p0)}.over{fill:var(--bad)}
.limit,.moment{stroke:var(--fg);stroke-width:2;fill:none;vector-effect:non-scaling-stroke}
.moment{stroke:var(--bad);stroke-width:3}
.collective{fill:var(--soft)}.waits{fill:var(--bad)}.still{fill:var(--open)}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;padding:0;margin:.3rem 0;
font-size:.88rem;color:var(--soft)}
svg.key{width:1.6rem;height:.55rem;margin-right:.35rem}
figure{margin:1rem 0}figure p.ends{padding-left:3.4rem}figcaption{font-weight:600}
.plot{position:relative;padding-left:3.4rem}
.plot svg{display:block;width:100%;height:11rem;background:var(--panel);overflow:visible}
.plot span{position:absolute;left:0;font-size:.8rem;color:var(--soft)}.plot .top{top:.1rem}
.plot .bottom{bottom:.1rem}
p.ends{display:flex;justify-content:space-between;margin:.1rem 0 .6rem;font-size:.85rem;
color:var(--soft)}
.line,.dots,.grid{fill:none;vector-effect:non-scaling-stroke}.line{stroke-width:2}
.dots{stroke-width:6;stroke-linecap:round}.grid{stroke:var(--line);stroke-width:1}
.l0{stroke:var(--p0)}.l1{stroke:var(--p3)}.l2{stroke:var(--p2)}.l3{stroke:var(--p1)}
.line.l1{stroke-dasharray:6 4}.line.l2{stroke-dasharray:2 3}.line.l3{stroke-dasharray:9 3 2 3}
ul.tree ul{border-left:1px solid var(--line);margin-left:.3rem}
.away{display:none}
@media (max-width:44rem){body{font-size:15px}h1{font-size:1.35rem}
ul.bars>li,ul.lanes>li{grid-template-columns:1fr;border-top:1px solid var(--line);padding:.35rem 0}
ul.lanes .words{grid-column:1}li.cause,.card{padding:.2rem .7rem .5rem}
table.facts th{white-space:normal;min-width:6.5rem}
ul.links a{padding:.35rem 0}
table.cases,table.cases tbody{display:block}table.cases thead{display:none}
table.cases tr{display:block;border:1px solid var(--line);border-radius:6px;padding:.3rem .5rem;
margin:.4rem 0}
table.cases td{display:inline;border:0;padding:0 .4rem 0 0;text-align:left}
table.cases td.n::after{content:" s"}table.cases td:nth-child(5){display:block}}
@media print{nav{display:none}body{font-size:10pt}.card,li.cause,tr,figure{break-inside:avoid}
.wide,pre{overflow:visible}pre{white-space:pre-wrap}a{color:inherit}td{overflow-wrap:anywhere}}
)css";
}

const char* script() {
  return R"js(
"use strict";
const find=document.getElementById("find");
const show=()=>{const 
at=location.hash&&document.getElementById(decodeURIComponent(location.hash.slice(1)));
for(let up=at;up;up=up.parentElement)if(up.tagName==="DETAILS")up.open=true;
if(at)at.scrollIntoView();};
addEventListener("hashchange",show);show();
if(find){find.hidden=false;find.addEventListener("input",()=>{const words=find.value.toLowerCase();
for(const part of document.querySelectorAll("#cases details")){let any=0;
const all=part.querySelector("summary").textContent.toLowerCase().includes(words);
for(const row of part.querySelectorAll("tbody tr")){
const hit=all||row.textContent.toLowerCase().includes(words);row.classList.toggle("away",!hit);
if(hit)any++;}
part.classList.toggle("away",any===0);if(words&&any&&!all)part.open=true;}
});}
)js";
}

}  // namespace reports::html
